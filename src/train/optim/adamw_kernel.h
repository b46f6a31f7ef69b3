// One pass of AdamW over a run of elements on the CPU. Every operation is rounded on its own (no fused multiply-add),
// so the result is the same on every x86 machine, and in the vector body as in its tail.
#pragma once
#include <cstdint>

namespace trireme::train {

// The step's numbers, in the precision of the arithmetic.
template <class Real>
struct AdamWStep {
  Real grad_scale = 1;  // multiplies the gradient: the clip factor
  Real keep = 1;        // 1 - learning_rate * weight_decay
  Real one_minus_beta1 = 0;
  Real beta2 = 0;
  Real one_minus_beta2 = 0;
  Real inverse_sqrt_correction2 = 1;  // 1 / sqrt(1 - beta2^t)
  Real eps = 0;
  Real step_size = 0;  // learning_rate / (1 - beta1^t)
};

// master, m, v: read and written. Real is float or double.
template <class Real>
void adamw_update(Real* master, Real* m, Real* v, const Real* grad, std::int64_t count, const AdamWStep<Real>& step);

}  // namespace trireme::train
