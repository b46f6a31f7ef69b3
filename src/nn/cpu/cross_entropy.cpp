#include "nn/cpu/cross_entropy.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "base/errors.h"
#include "nn/cpu/gemm.h"
#include "nn/cpu/simd.h"
#include "nn/cpu/tasks.h"

namespace trireme::nn::cpu {
namespace {

// Largest value and sum of exp(value - largest) of each row of a strip.
template <class T>
TRIREME_INLINE void strip_sums(std::int64_t rows, std::int64_t columns, const T* logits, std::int64_t stride,
                               T* largest, T* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = logits + r * stride;
    T most = row[0];
#pragma omp simd reduction(max : most)
    for (std::int64_t i = 0; i < columns; ++i) most = row[i] > most ? row[i] : most;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < columns; ++i) sum += exponential(row[i] - most);
    largest[r] = most;
    sums[r] = sum;
  }
}

// logits -> factor * softmax, from each row's logsumexp.
template <class T>
TRIREME_INLINE void strip_gradient(std::int64_t rows, std::int64_t columns, T* logits, std::int64_t stride,
                                   const T* lse, const T* factors) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = logits + r * stride;
    const T offset = lse[r], factor = factors[r];
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) row[i] = factor * exponential(row[i] - offset);
  }
}

#define CLONES(T)                                                                                            \
  TRIREME_CLONES void sums_of(std::int64_t rows, std::int64_t columns, const T* logits, std::int64_t stride, \
                              T* largest, T* sums) {                                                         \
    strip_sums(rows, columns, logits, stride, largest, sums);                                                \
  }                                                                                                          \
  TRIREME_CLONES void gradient_of(std::int64_t rows, std::int64_t columns, T* logits, std::int64_t stride,   \
                                  const T* lse, const T* factors) {                                          \
    strip_gradient(rows, columns, logits, stride, lse, factors);                                             \
  }
CLONES(float)
CLONES(double)

}  // namespace

template <class T>
double head_chunk(const HeadChunk<T>& c) {
  // Strips of the vocabulary: a strip's logits are still in the cache when they are summed up.
  const Tiles strips(c.vocab, 512);
  const auto tokens = static_cast<std::size_t>(c.tokens);
  std::vector<T> largest(static_cast<std::size_t>(strips.count) * tokens), sums(largest.size());
  parallel_tasks(strips.count, [&](std::int64_t strip, int) {
    const std::int64_t begin = strips.begin(strip), columns = strips.length(strip);
    gemm<T>(c.tokens, columns, c.hidden, {c.x_CD, c.hidden}, {c.weight_VD + begin * c.hidden, c.hidden, true}, T(0),
            c.logits_CV + begin, c.vocab);
    sums_of(c.tokens, columns, c.logits_CV + begin, c.vocab, largest.data() + strip * c.tokens,
            sums.data() + strip * c.tokens);
  });

  std::vector<T> lse(tokens), factors(tokens);
  double loss = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    T most = largest[t];
    for (std::size_t s = 1; s < static_cast<std::size_t>(strips.count); ++s)
      most = std::max(most, largest[s * tokens + t]);
    double sum = 0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(strips.count); ++s)
      sum += static_cast<double>(sums[s * tokens + t]) * std::exp(static_cast<double>(largest[s * tokens + t] - most));
    const double logsumexp = static_cast<double>(most) + std::log(sum);
    lse[t] = static_cast<T>(logsumexp);
    const double weight = static_cast<double>(c.weights_C[t]);
    factors[t] = static_cast<T>(weight * c.seed);
    if (weight == 0) continue;
    const std::int64_t target = c.targets_C[t];
    TRIREME_CHECK(target >= 0 && target < c.vocab, "target {} of a vocabulary of {}", target, c.vocab);
    loss += weight * (logsumexp - static_cast<double>(c.logits_CV[static_cast<std::int64_t>(t) * c.vocab + target]));
  }
  if (c.seed == 0) return loss;

  parallel_tasks(strips.count, [&](std::int64_t strip, int) {
    const std::int64_t begin = strips.begin(strip), columns = strips.length(strip);
    gradient_of(c.tokens, columns, c.logits_CV + begin, c.vocab, lse.data(), factors.data());
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::int64_t target = c.targets_C[t];
      if (factors[t] != 0 && target >= begin && target < begin + columns)
        c.logits_CV[static_cast<std::int64_t>(t) * c.vocab + target] -= factors[t];
    }
    gemm<T>(columns, c.hidden, c.tokens, {c.logits_CV + begin, c.vocab, true}, {c.x_CD, c.hidden}, T(1),
            c.dweight_VD + begin * c.hidden, c.hidden);
  });
  multiply_nn<T>(c.tokens, c.vocab, c.hidden, c.logits_CV, c.weight_VD, T(0), c.dx_CD);
  return loss;
}

template double head_chunk<float>(const HeadChunk<float>&);
template double head_chunk<double>(const HeadChunk<double>&);

}  // namespace trireme::nn::cpu
