#include "nn/cpu/rotary.h"

#include "nn/cpu/norm.h"
#include "nn/cpu/simd.h"

namespace trireme::nn::cpu {
namespace {

// direction 1 turns forwards, -1 back (the rotation is orthogonal, so that is its gradient).
template <class T>
TRIREME_INLINE void turn(std::int64_t half, const T* cosine, const T* sine, T direction, const T* in, T* out) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const T a = in[i], b = in[i + half], c = cosine[i], s = sine[i] * direction;
    out[i] = a * c - b * s;
    out[i + half] = b * c + a * s;
  }
}

template <class T>
TRIREME_INLINE void forward(const HeadLayout<T>& l, std::int64_t rows, const std::int64_t* positions, const T* in,
                            std::int64_t ldin, T* out, std::int64_t ldout, T* scale) {
  const std::int64_t heads = l.query_heads + l.key_heads, half = l.head_dim / 2;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t head = 0; head < heads; ++head) {
      const T* source = in + r * ldin + head * l.head_dim;
      T* target = out + r * ldout + head * l.head_dim;
      if (l.query_norm != nullptr) {
        const T* weight = head < l.query_heads ? l.query_norm : l.key_norm;
        norm_forward(1, l.head_dim, l.eps, source, 0, weight, target, 0, scale + r * heads + head);
        source = target;
      }
      turn(half, l.cosine + positions[r] * half, l.sine + positions[r] * half, T(1), source, target);
    }
}

template <class T>
TRIREME_INLINE void backward(const HeadLayout<T>& l, std::int64_t rows, const std::int64_t* positions, T* gradient,
                             std::int64_t ldg, const T* raw, std::int64_t ldraw, const T* scale, T* dquery_norm,
                             T* dkey_norm) {
  const std::int64_t heads = l.query_heads + l.key_heads, half = l.head_dim / 2;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t head = 0; head < heads; ++head) {
      T* g = gradient + r * ldg + head * l.head_dim;
      turn(half, l.cosine + positions[r] * half, l.sine + positions[r] * half, T(-1), g, g);
      if (l.query_norm == nullptr) continue;
      const bool query = head < l.query_heads;
      norm_backward(1, l.head_dim, g, 0, raw + r * ldraw + head * l.head_dim, 0, query ? l.query_norm : l.key_norm,
                    scale + r * heads + head, g, 0, /*accumulate=*/false, query ? dquery_norm : dkey_norm);
    }
}

}  // namespace

#define INSTANTIATE(T)                                                                                                 \
  TRIREME_CLONES void place_heads(const HeadLayout<T>& layout, std::int64_t rows, const std::int64_t* positions,       \
                                  const T* in, std::int64_t ldin, T* out, std::int64_t ldout, T* scale) {              \
    forward(layout, rows, positions, in, ldin, out, ldout, scale);                                                     \
  }                                                                                                                    \
  TRIREME_CLONES void place_heads_backward(const HeadLayout<T>& layout, std::int64_t rows,                             \
                                           const std::int64_t* positions, T* gradient, std::int64_t ldg, const T* raw, \
                                           std::int64_t ldraw, const T* scale, T* dquery_norm, T* dkey_norm) {         \
    backward(layout, rows, positions, gradient, ldg, raw, ldraw, scale, dquery_norm, dkey_norm);                       \
  }
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace trireme::nn::cpu
