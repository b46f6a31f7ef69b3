// Uninitialised tensors for results that are written in full. With TRIREME_POISON they start as NaN (integers: as a
// value that no index may have), so that a read before the write shows in the numbers.
#pragma once
#include <ATen/ATen.h>

namespace trireme::nn {

inline at::Tensor fresh(at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor t = at::empty(sizes, options);
#ifdef TRIREME_POISON
  if (t.is_floating_point()) {
    t.fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    t.fill_(std::numeric_limits<std::int32_t>::min());
  }
#endif
  return t;
}

// max(float32, dtype): what norms, rotary angles, router scores and gradient accumulators are computed in.
inline at::ScalarType accumulate_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace trireme::nn
