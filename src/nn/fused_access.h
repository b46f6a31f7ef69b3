// Pointers into parameters, and small helpers that the fused segments share.
#pragma once
#include <ATen/ATen.h>

#include "base/errors.h"
#include "nn/cpu/simd.h"
#include "nn/fresh.h"
#include "nn/parameter_store.h"

namespace trireme::nn::fused {

template <class T>
const T* value_of(const Parameter* p) {
  return p == nullptr ? nullptr : p->value.const_data_ptr<T>();
}

// The bound accumulator, which the fused kernels add to directly.
template <class T>
T* gradient_of(Parameter* p) {
  at::Tensor& gradient = bound_gradient(*p);
  TRIREME_CHECK(gradient.is_contiguous() && gradient.scalar_type() == c10::CppTypeToScalarType<T>::value,
                "the gradient of {} must be contiguous {}", p->name, c10::toString(c10::CppTypeToScalarType<T>::value));
  return gradient.mutable_data_ptr<T>();
}

// Gradients of outputs that nothing flowed back to count as zero.
inline at::Tensor or_zeros(const at::Tensor& gradient, at::IntArrayRef sizes, const at::TensorOptions& options) {
  return gradient.defined() ? gradient.contiguous() : at::zeros(sizes, options);
}

// A sum (n) that a backward has kept, added to the accumulator of its parameter.
template <class T>
void add_sum(const at::Tensor& sum, T* accumulator) {
  const T* add = sum.const_data_ptr<T>();
  for (std::int64_t i = 0; i < sum.numel(); ++i) accumulator[i] += add[i];
}

// Each tile's own partial sum, and their sum in the order of the tiles.
template <class T>
class TilePartials {
 public:
  TilePartials(std::int64_t tiles, std::int64_t width)
      : width_(width),
        sums_(at::zeros({tiles, width}, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value))) {}
  T* of(std::int64_t tile) { return sums_.mutable_data_ptr<T>() + tile * width_; }
  at::Tensor sum() {
    const at::Tensor total = at::zeros({width_}, sums_.options());
    T* out = total.mutable_data_ptr<T>();
    for (std::int64_t tile = 0; tile < sums_.size(0); ++tile)
      for (std::int64_t i = 0; i < width_; ++i) out[i] += of(tile)[i];
    return total;
  }
  void add_to(T* accumulator) { add_sum(sum(), accumulator); }

 private:
  std::int64_t width_;
  at::Tensor sums_;
};

template <class T>
void add_bias(std::int64_t rows, std::int64_t width, const T* bias, T* y) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < width; ++i) y[r * width + i] += bias[i];
}

}  // namespace trireme::nn::fused
