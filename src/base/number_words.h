// Numbers in texts for people.
#pragma once
#include <cmath>

namespace trireme {

// A number as it is told: of one that is not a number the sign says nothing, and would print as "-nan".
inline double without_nan_sign(double x) {
  return std::isnan(x) ? std::abs(x) : x;
}

}  // namespace trireme
