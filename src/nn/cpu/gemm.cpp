#include "nn/cpu/gemm.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "nn/cpu/simd.h"
#include "nn/cpu/tasks.h"

// libtorch exports the Fortran BLAS that it was built with. Weak, for builds that export none: those take ATen's mm.
extern "C" {
__attribute__((weak)) void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                                  const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                                  const float* beta, float* c, const int* ldc);
__attribute__((weak)) void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                                  const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
                                  const double* beta, double* c, const int* ldc);
}

namespace trireme::nn::cpu {
namespace {

auto blas(float) {
  return sgemm_;
}
auto blas(double) {
  return dgemm_;
}

template <class T>
at::Tensor as_tensor(Matrix<T> m, std::int64_t rows, std::int64_t columns) {
  // The pointer is only read through it.
  T* data = const_cast<T*>(m.data);
  const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value);
  if (m.transposed) return at::from_blob(data, {columns, rows}, {m.stride, 1}, options).t();
  return at::from_blob(data, {rows, columns}, {m.stride, 1}, options);
}

TRIREME_CLONES void add_rows(std::int64_t rows, std::int64_t n, const float* y, std::int64_t stride, float* w) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < n; ++i) w[i] += y[r * stride + i];
}

TRIREME_CLONES void add_rows(std::int64_t rows, std::int64_t n, const double* y, std::int64_t stride, double* w) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < n; ++i) w[i] += y[r * stride + i];
}

}  // namespace

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<T> a, Matrix<T> b, T beta, T* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::int64_t i = 0; i < m && beta != T(1); ++i)
      for (std::int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == T(0) ? T(0) : beta * c[i * ldc + j];
    return;
  }
  const auto routine = blas(T());
  if (routine == nullptr) {
    at::NoGradGuard no_grad;
    at::Tensor out = as_tensor<T>({c, ldc}, m, n);
    const at::Tensor product = at::mm(as_tensor(a, m, k), as_tensor(b, k, n));
    if (beta == T(0)) {
      out.copy_(product);
    } else {
      out.mul_(beta).add_(product);
    }
    return;
  }
  // Fortran's matrices are by columns: C^T = B^T A^T.
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), inner = static_cast<int>(k);
  const int lda = static_cast<int>(a.stride), ldb = static_cast<int>(b.stride), ld = static_cast<int>(ldc);
  const T one = 1;
  routine(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &rows, &columns, &inner, &one, b.data, &ldb, a.data, &lda,
          &beta, c, &ld);
}

template <class T>
void multiply_nt(std::int64_t rows, std::int64_t n, std::int64_t k, const T* x, const T* w, T beta, T* y) {
  const Tiles tiles(rows);
  parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
    const std::int64_t begin = tiles.begin(tile);
    gemm<T>(tiles.length(tile), n, k, {x + begin * k, k}, {w, k, true}, beta, y + begin * n, n);
  });
}

template <class T>
void multiply_nn(std::int64_t rows, std::int64_t n, std::int64_t k, const T* y, const T* w, T beta, T* x) {
  const Tiles tiles(rows);
  parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
    const std::int64_t begin = tiles.begin(tile);
    gemm<T>(tiles.length(tile), k, n, {y + begin * n, n}, {w, k}, beta, x + begin * k, k);
  });
}

template <class T>
void accumulate_tn_part(std::int64_t rows, std::int64_t n_begin, std::int64_t n_count, std::int64_t k, const T* y,
                        std::int64_t ldy, const T* x, T* w) {
  gemm<T>(n_count, k, rows, {y + n_begin, ldy, true}, {x, k}, T(1), w + n_begin * k, k);
}

template <class T>
void accumulate_tn(std::int64_t rows, std::int64_t n, std::int64_t k, const T* y, const T* x, T* w) {
  const Tiles tiles(n, 64);
  parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
    accumulate_tn_part(rows, tiles.begin(tile), tiles.length(tile), k, y, n, x, w);
  });
}

template <class T>
void accumulate_columns(std::int64_t rows, std::int64_t n, const T* y, T* w) {
  const Tiles tiles(n, 64);
  parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
    add_rows(rows, tiles.length(tile), y + tiles.begin(tile), n, w + tiles.begin(tile));
  });
}

#define INSTANTIATE(T)                                                                                                \
  template void gemm<T>(std::int64_t, std::int64_t, std::int64_t, Matrix<T>, Matrix<T>, T, T*, std::int64_t);         \
  template void multiply_nt<T>(std::int64_t, std::int64_t, std::int64_t, const T*, const T*, T, T*);                  \
  template void multiply_nn<T>(std::int64_t, std::int64_t, std::int64_t, const T*, const T*, T, T*);                  \
  template void accumulate_tn<T>(std::int64_t, std::int64_t, std::int64_t, const T*, const T*, T*);                   \
  template void accumulate_tn_part<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const T*, std::int64_t, \
                                      const T*, T*);                                                                  \
  template void accumulate_columns<T>(std::int64_t, std::int64_t, const T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace trireme::nn::cpu
