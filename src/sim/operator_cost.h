// Seconds of model operators on a device's curves. An operator takes its launches, and its work at the rate that the curve
// has for its shape.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "model/operators.h"
#include "platform/device_curves.h"

namespace trireme::sim {

// One line of --explain: a value, what it is made of and where that comes from.
struct Term {
  std::string what;    // "forward attention layer 0: q, k, v projection"
  double seconds = 0;
  std::string source;  // "gemm 512 x 1024 x 256 at 61.3 GFLOP/s (measured)"
  bool operator==(const Term&) const = default;
};
TRIREME_JSON(Term)

Seconds operator_time(const model::FusedOperator& op, const platform::DeviceCurves& curves);

// The same, with its explanation.
Term explain_operator(const model::FusedOperator& op, const platform::DeviceCurves& curves);

Seconds operators_time(const std::vector<model::FusedOperator>& ops, const platform::DeviceCurves& curves);

}  // namespace trireme::sim
