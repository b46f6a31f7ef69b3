// Seconds of a run's operators by rates: of each its work and the calls that make it.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "model/operators.h"
#include "plan/pipeline/action.h"
#include "sim/rates/rates.h"

namespace trireme::sim {

// One line of --explain: a value, what it is made of and where that comes from.
struct Term {
  std::string what;  // "forward attention layer 0: output projection"
  double seconds = 0;
  std::string source;  // "gemm 512 x 1024 x 256 at 61.3 GFLOP/s (measured)"
  std::string formula = {};  // where docs/ has it: "price.md#matmul"
  bool operator==(const Term&) const = default;
};
TRIREME_JSON(Term)

// Whether an action computes a segment, or half of its backward, and the operators of what it computes.
constexpr bool computes_segment(plan::ActionKind kind) {
  return kind == plan::ActionKind::forward || kind == plan::ActionKind::backward ||
         kind == plan::ActionKind::input_gradient || kind == plan::ActionKind::weight_gradient;
}
std::vector<Operator> operators_of(const model::ModelSpec& model, const plan::Action& action,
                                   const model::SegmentShape& shape);

// On the device: its work and the gaps before its kernels.
Seconds operator_time(const Operator& op, const Rates& rates);

// The same, with its explanation.
Term explain_operator(const Operator& op, const Rates& rates);

// One after another: never less than the host needs to launch them all (layer_time.h, wall_s).
Seconds operators_time(const std::vector<Operator>& ops, const Rates& rates);

}  // namespace trireme::sim
