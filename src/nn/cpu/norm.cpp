#include "nn/cpu/norm.h"

#include <cmath>

#include "nn/cpu/simd.h"

namespace trireme::nn::cpu {
namespace {

template <class T>
TRIREME_INLINE void forward(std::int64_t rows, std::int64_t width, double eps, const T* x, std::int64_t ldx, const T* w,
                            T* y, std::int64_t ldy, T* scale) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * ldx;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < width; ++i) sum += row[i] * row[i];
    const T s = T(1) / std::sqrt(sum / static_cast<T>(width) + static_cast<T>(eps));
    if (scale != nullptr) scale[r] = s;
    T* out = y + r * ldy;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) out[i] = row[i] * s * w[i];
  }
}

// With n = x s: dx = s (dy w - n mean(dy w n)), dw = dy n.
template <class T>
TRIREME_INLINE void backward(std::int64_t rows, std::int64_t width, const T* dy, std::int64_t ldy, const T* x,
                             std::int64_t ldx, const T* w, const T* scale, T* dx, std::int64_t lddx, bool accumulate,
                             T* dw) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T *row = x + r * ldx, *gradient = dy + r * ldy;
    const T s = scale[r];
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < width; ++i) {
      const T g = gradient[i] * row[i] * s;
      dw[i] += g;
      sum += g * w[i];
    }
    const T along = sum / static_cast<T>(width) * s;
    T* out = dx + r * lddx;
    if (accumulate) {
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) out[i] += s * (gradient[i] * w[i] - row[i] * along);
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) out[i] = s * (gradient[i] * w[i] - row[i] * along);
    }
  }
}

}  // namespace

#define INSTANTIATE(T)                                                                                                \
  TRIREME_CLONES void norm_forward(std::int64_t rows, std::int64_t width, double eps, const T* x, std::int64_t ldx,   \
                                   const T* w, T* y, std::int64_t ldy, T* scale) {                                    \
    forward(rows, width, eps, x, ldx, w, y, ldy, scale);                                                              \
  }                                                                                                                   \
  TRIREME_CLONES void norm_backward(std::int64_t rows, std::int64_t width, const T* dy, std::int64_t ldy, const T* x, \
                                    std::int64_t ldx, const T* w, const T* scale, T* dx, std::int64_t lddx,           \
                                    bool accumulate, T* dw) {                                                         \
    backward(rows, width, dy, ldy, x, ldx, w, scale, dx, lddx, accumulate, dw);                                       \
  }
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace trireme::nn::cpu
