// Cuts the backwards of a lowered plan into halves, by hand: for tests of what executes them.
#pragma once
#include "plan/plan.h"

namespace trireme::testing {

enum class SplitAt {
  once,                // a weight gradient right behind its input gradient
  end_of_micro_batch,  // behind all input gradients of the micro-batch, or before the first reduction that needs it
};

// Every `backward` becomes an `input_gradient` and, but for `combine`, which has no weights, a `weight_gradient` with a
// buffer between them. Messages wait for the first half, reductions for the second.
void split_backwards(plan::Plan& plan, SplitAt at);

}  // namespace trireme::testing
