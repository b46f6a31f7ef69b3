// Row-major matrix products on raw pointers: the BLAS of libtorch, callable inside a task.
#pragma once
#include <cstdint>

namespace trireme::nn::cpu {

template <class T>
struct Matrix {
  const T* data;
  std::int64_t stride;  // elements from one row to the next
  bool transposed = false;
};

// C (m x n, stride ldc) = A (m x k) B (k x n) + beta C, of operands as transposed. One thread inside a task.
template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<T> a, Matrix<T> b, T beta, T* c, std::int64_t ldc);

// All threads. Legend: y (rows x n), w (n x k), x (rows x k), contiguous.
template <class T>
void multiply_nt(std::int64_t rows, std::int64_t n, std::int64_t k, const T* x, const T* w, T beta, T* y);  // y = x w^T
template <class T>
void multiply_nn(std::int64_t rows, std::int64_t n, std::int64_t k, const T* y, const T* w, T beta, T* x);  // x = y w
// w += y^T x: a weight gradient, straight into its accumulator.
template <class T>
void accumulate_tn(std::int64_t rows, std::int64_t n, std::int64_t k, const T* y, const T* x, T* w);

// The part of accumulate_tn for rows [n_begin, n_begin + n_count) of w, inside a task. y has row stride `ldy`.
template <class T>
void accumulate_tn_part(std::int64_t rows, std::int64_t n_begin, std::int64_t n_count, std::int64_t k, const T* y,
                        std::int64_t ldy, const T* x, T* w);

// w (n) += column sums of y (rows x n): a bias gradient. Rows in order.
template <class T>
void accumulate_columns(std::int64_t rows, std::int64_t n, const T* y, T* w);

}  // namespace trireme::nn::cpu
