#include "nn/cpu/permute.h"

#include <ATen/Parallel.h>

#include <cstring>

#include "nn/cpu/simd.h"

namespace trireme::nn::cpu {
namespace {

template <class T>
TRIREME_INLINE void sum(std::int64_t begin, std::int64_t end, std::int64_t hidden, std::int64_t top_k,
                        const std::int64_t* inverse, const T* rows, const T* residual, const T* shared, T* out) {
  for (std::int64_t t = begin; t < end; ++t) {
    T* target = out + t * hidden;
    const std::int64_t* slot = inverse + t * top_k;
    const T* first = rows + slot[0] * hidden;
    if (residual != nullptr) {
      const T* base = residual + t * hidden;
#pragma omp simd
      for (std::int64_t i = 0; i < hidden; ++i) target[i] = base[i] + first[i];
    } else {
      std::memcpy(target, first, sizeof(T) * static_cast<std::size_t>(hidden));
    }
    for (std::int64_t k = 1; k < top_k; ++k) {
      const T* row = rows + slot[k] * hidden;
#pragma omp simd
      for (std::int64_t i = 0; i < hidden; ++i) target[i] += row[i];
    }
    if (shared == nullptr) continue;
    const T* extra = shared + t * hidden;
#pragma omp simd
    for (std::int64_t i = 0; i < hidden; ++i) target[i] += extra[i];
  }
}

}  // namespace

template <class T>
void gather_rows(std::int64_t rows, std::int64_t hidden, std::int64_t top_k, const std::int64_t* order, const T* x,
                 T* out) {
  const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(hidden);
  at::parallel_for(0, rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::memcpy(out + i * hidden, x + order[i] / top_k * hidden, bytes);
  });
}

template void gather_rows<float>(std::int64_t, std::int64_t, std::int64_t, const std::int64_t*, const float*, float*);
template void gather_rows<double>(std::int64_t, std::int64_t, std::int64_t, const std::int64_t*, const double*,
                                  double*);

TRIREME_CLONES void sum_slots(std::int64_t begin, std::int64_t end, std::int64_t hidden, std::int64_t top_k,
                              const std::int64_t* inverse, const float* rows, const float* residual,
                              const float* shared, float* out) {
  sum(begin, end, hidden, top_k, inverse, rows, residual, shared, out);
}
TRIREME_CLONES void sum_slots(std::int64_t begin, std::int64_t end, std::int64_t hidden, std::int64_t top_k,
                              const std::int64_t* inverse, const double* rows, const double* residual,
                              const double* shared, double* out) {
  sum(begin, end, hidden, top_k, inverse, rows, residual, shared, out);
}

}  // namespace trireme::nn::cpu
