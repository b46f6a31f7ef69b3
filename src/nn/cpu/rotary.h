// Query and key heads: optional RMSNorm of each head, then rotary positions in the half-split convention.
// Rows are tokens; the H query heads and G key heads of a token lie side by side, each of width h.
#pragma once
#include <cstdint>

namespace trireme::nn::cpu {

template <class T>
struct HeadLayout {
  std::int64_t query_heads = 0, key_heads = 0, head_dim = 0;
  const T* cosine = nullptr;  // (positions, h / 2)
  const T* sine = nullptr;
  const T* query_norm = nullptr;  // (h); null without QK norm
  const T* key_norm = nullptr;
  double eps = 0;
};

// A tile of rows. Without QK norm `in` may be `out`; `scale` (rows, H + G) is written with QK norm only.
void place_heads(const HeadLayout<float>& layout, std::int64_t rows, const std::int64_t* positions, const float* in,
                 std::int64_t ldin, float* out, std::int64_t ldout, float* scale);
void place_heads(const HeadLayout<double>& layout, std::int64_t rows, const std::int64_t* positions, const double* in,
                 std::int64_t ldin, double* out, std::int64_t ldout, double* scale);

// In place: the gradient of the rotated heads becomes that of the raw ones. With QK norm `raw` is the forward's input,
// and the norm weights' gradients are added to dquery_norm and dkey_norm (h) in row order.
void place_heads_backward(const HeadLayout<float>& layout, std::int64_t rows, const std::int64_t* positions,
                          float* gradient, std::int64_t ldg, const float* raw, std::int64_t ldraw, const float* scale,
                          float* dquery_norm, float* dkey_norm);
void place_heads_backward(const HeadLayout<double>& layout, std::int64_t rows, const std::int64_t* positions,
                          double* gradient, std::int64_t ldg, const double* raw, std::int64_t ldraw,
                          const double* scale, double* dquery_norm, double* dkey_norm);

}  // namespace trireme::nn::cpu
