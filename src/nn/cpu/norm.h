// RMSNorm on rows of width D: y = x / sqrt(mean(x^2) + eps) * w.
#pragma once
#include <cstdint>

namespace trireme::nn::cpu {

// One tile, inside a task. `scale` (one a row, may be null) gets 1 / sqrt(mean(x^2) + eps). x and y may be the same;
// rows have strides of their own.
void norm_forward(std::int64_t rows, std::int64_t width, double eps, const float* x, std::int64_t ldx, const float* w,
                  float* y, std::int64_t ldy, float* scale);
void norm_forward(std::int64_t rows, std::int64_t width, double eps, const double* x, std::int64_t ldx, const double* w,
                  double* y, std::int64_t ldy, double* scale);

// dx (+)= gradient with respect to x; dw (width) += that of w over the tile's rows, in order.
void norm_backward(std::int64_t rows, std::int64_t width, const float* dy, std::int64_t ldy, const float* x,
                   std::int64_t ldx, const float* w, const float* scale, float* dx, std::int64_t lddx, bool accumulate,
                   float* dw);
void norm_backward(std::int64_t rows, std::int64_t width, const double* dy, std::int64_t ldy, const double* x,
                   std::int64_t ldx, const double* w, const double* scale, double* dx, std::int64_t lddx,
                   bool accumulate, double* dw);

}  // namespace trireme::nn::cpu
