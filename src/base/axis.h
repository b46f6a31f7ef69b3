// The axes of a mesh of ranks.
#pragma once
#include <cstdint>

namespace trireme {

enum class Axis : std::uint8_t {
  tp,   // ranks that share a layer's matrices
  cp,   // ranks that share a sequence's tokens
  dp,   // ranks with sequences of their own
  pp,   // pipeline stages
  ep,   // ranks that share a layer's experts
  etp,  // ranks that share an expert's matrices
  edp,  // ranks that hold the same experts
};

}  // namespace trireme
