#include "train/optim/adamw_kernel.h"

#include <cmath>

// Contraction would round differently in builds that have fused multiply-add, and between a loop's body and its tail.
#pragma GCC optimize("O3", "fp-contract=off", "no-math-errno")

namespace trireme::train {
namespace {

template <class Real>
[[gnu::always_inline]] inline void update(Real* __restrict master, Real* __restrict m, Real* __restrict v,
                                          const Real* __restrict grad, std::int64_t count, const AdamWStep<Real>& s) {
  const Real grad_scale = s.grad_scale, keep = s.keep, one_minus_beta1 = s.one_minus_beta1, beta2 = s.beta2;
  const Real one_minus_beta2 = s.one_minus_beta2, inverse = s.inverse_sqrt_correction2, eps = s.eps;
  const Real step_size = s.step_size;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const Real g = grad[i] * grad_scale;
    const Real new_m = m[i] + (g - m[i]) * one_minus_beta1;
    const Real new_v = v[i] * beta2 + (g * g) * one_minus_beta2;
    m[i] = new_m;
    v[i] = new_v;
    const Real denominator = std::sqrt(new_v) * inverse + eps;
    master[i] = master[i] * keep - (new_m / denominator) * step_size;
  }
}

#if defined(__x86_64__)
#define TRIREME_HAS_AVX2_CLONE 1
// AVX2 without FMA: 256-bit lanes, the same roundings.
template <class Real>
[[gnu::target("avx2")]] void update_avx2(Real* master, Real* m, Real* v, const Real* grad, std::int64_t count,
                                         const AdamWStep<Real>& s) {
  update(master, m, v, grad, count, s);
}
#endif

}  // namespace

template <class Real>
void adamw_update(Real* master, Real* m, Real* v, const Real* grad, std::int64_t count, const AdamWStep<Real>& step) {
#ifdef TRIREME_HAS_AVX2_CLONE
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return update_avx2(master, m, v, grad, count, step);
#endif
  update(master, m, v, grad, count, step);
}

template void adamw_update(float*, float*, float*, const float*, std::int64_t, const AdamWStep<float>&);
template void adamw_update(double*, double*, double*, const double*, std::int64_t, const AdamWStep<double>&);

}  // namespace trireme::train
