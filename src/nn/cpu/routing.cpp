#include "nn/cpu/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/cpu/simd.h"

namespace trireme::nn::cpu {
namespace {

using model::RouterSpec;

constexpr double tiny = 1e-20;  // sigmoid scores may all underflow

// exp(logits - max) and their sum.
template <class T>
TRIREME_INLINE void exponentials(std::int64_t n, const T* logits, T* out, T& largest, T& sum) {
  T most = logits[0];
  for (std::int64_t e = 1; e < n; ++e) most = std::max(most, logits[e]);
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t e = 0; e < n; ++e) {
    out[e] = exponential(logits[e] - most);
    total += out[e];
  }
  largest = most;
  sum = total;
}

template <class T>
TRIREME_INLINE void scores_of(bool softmax, std::int64_t n, const T* logits, T* scores) {
  if (!softmax) {
#pragma omp simd
    for (std::int64_t e = 0; e < n; ++e) scores[e] = T(1) / (T(1) + exponential(-logits[e]));
    return;
  }
  T largest, sum;
  exponentials(n, logits, scores, largest, sum);
  const T inverse = T(1) / sum;
#pragma omp simd
  for (std::int64_t e = 0; e < n; ++e) scores[e] *= inverse;
}

#define CLONES(T)                                                                                     \
  TRIREME_CLONES void row_scores(bool softmax, std::int64_t n, const T* logits, T* scores) {          \
    scores_of(softmax, n, logits, scores);                                                            \
  }                                                                                                   \
  TRIREME_CLONES void row_exponentials(std::int64_t n, const T* logits, T* out, T& largest, T& sum) { \
    exponentials(n, logits, out, largest, sum);                                                       \
  }
CLONES(float)
CLONES(double)

bool is_softmax(const RouterSpec& spec) {
  return spec.score == model::ScoreFunction::softmax;
}

// The largest value first, then its first place: two loops that vectorise, unlike a search that carries both.
template <class T>
TRIREME_INLINE std::int64_t first_largest(std::int64_t n, const T* values) {
  T most = values[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < n; ++i) most = values[i] > most ? values[i] : most;
  std::int64_t place = 0;
  while (place < n - 1 && values[place] != most) ++place;
  return place;
}
TRIREME_CLONES std::int64_t largest_of(std::int64_t n, const float* values) {
  return first_largest(n, values);
}
TRIREME_CLONES std::int64_t largest_of(std::int64_t n, const double* values) {
  return first_largest(n, values);
}

// The index of the largest, the first of equals; it is then struck out.
template <class T>
std::int64_t take_best(std::vector<T>& values) {
  const std::int64_t best = largest_of(static_cast<std::int64_t>(values.size()), values.data());
  values[static_cast<std::size_t>(best)] = -std::numeric_limits<T>::infinity();
  return best;
}

// Experts outside the best groups are struck out. A group's strength: the sum of its two best.
template <class T>
void limit_groups(const RouterSpec& spec, std::vector<T>& choice) {
  const std::int64_t size = static_cast<std::int64_t>(choice.size()) / spec.num_groups;
  std::vector<T> strength(static_cast<std::size_t>(spec.num_groups));
  for (std::int64_t g = 0; g < spec.num_groups; ++g) {
    T first = -std::numeric_limits<T>::infinity(), second = first;
    for (std::int64_t i = g * size; i < (g + 1) * size; ++i) {
      const T value = choice[static_cast<std::size_t>(i)];
      if (value > first) {
        second = first;
        first = value;
      } else {
        second = std::max(second, value);
      }
    }
    strength[static_cast<std::size_t>(g)] = size > 1 ? first + second : first;
  }
  std::vector<char> open(static_cast<std::size_t>(spec.num_groups), 0);
  for (int i = 0; i < spec.top_groups; ++i) open[static_cast<std::size_t>(take_best(strength))] = 1;
  for (std::size_t e = 0; e < choice.size(); ++e)
    if (open[e / static_cast<std::size_t>(size)] == 0) choice[e] = -std::numeric_limits<T>::infinity();
}

}  // namespace

template <class T>
void route_rows(const RouterSpec& spec, std::int64_t num_experts, const float* bias, std::int64_t rows, const T* logits,
                std::int64_t* experts, T* weights) {
  const auto n = static_cast<std::size_t>(num_experts);
  std::vector<T> scores(n), choice(n);
  for (std::int64_t r = 0; r < rows; ++r) {
    row_scores(is_softmax(spec), num_experts, logits + r * num_experts, scores.data());
    for (std::size_t e = 0; e < n; ++e) choice[e] = bias == nullptr ? scores[e] : scores[e] + static_cast<T>(bias[e]);
    if (spec.num_groups > 1) limit_groups(spec, choice);
    T sum = is_softmax(spec) ? T(0) : static_cast<T>(tiny);
    for (int k = 0; k < spec.top_k; ++k) {
      const std::int64_t e = take_best(choice);
      experts[r * spec.top_k + k] = e;
      sum += scores[static_cast<std::size_t>(e)];
    }
    const T factor = static_cast<T>(spec.scale) / (spec.renormalise ? sum : T(1));
    for (int k = 0; k < spec.top_k; ++k)
      weights[r * spec.top_k + k] = scores[static_cast<std::size_t>(experts[r * spec.top_k + k])] * factor;
  }
}

std::vector<double> aux_slopes(const RouterSpec& spec, std::int64_t num_experts, std::int64_t tokens,
                               std::int64_t pieces, const std::int64_t* experts, const bool* valid) {
  std::vector<double> slopes(static_cast<std::size_t>(pieces * num_experts), 0.0);
  const std::int64_t length = tokens / pieces;
  for (std::int64_t p = 0; p < pieces; ++p) {
    double* counts = slopes.data() + p * num_experts;
    double num_valid = 0;
    for (std::int64_t t = p * length; t < (p + 1) * length; ++t) {
      if (valid != nullptr && !valid[t]) continue;
      num_valid += 1;
      for (int k = 0; k < spec.top_k; ++k) counts[experts[t * spec.top_k + k]] += 1;
    }
    const double factor = static_cast<double>(num_experts) / (spec.top_k * std::max(1.0, num_valid * num_valid));
    for (std::int64_t e = 0; e < num_experts; ++e) counts[e] *= factor;
  }
  return slopes;
}

template <class T>
RouterLosses router_losses(const RouterSpec& spec, std::int64_t num_experts, const T* logits, const double* slopes) {
  std::vector<T> scores(static_cast<std::size_t>(num_experts));
  RouterLosses losses;
  T largest, sum;
  row_exponentials(num_experts, logits, scores.data(), largest, sum);
  const double lse = static_cast<double>(largest) + std::log(static_cast<double>(sum));
  losses.z = lse * lse;
  if (slopes == nullptr) return losses;
  row_scores(is_softmax(spec), num_experts, logits, scores.data());
  double total = is_softmax(spec) ? 1.0 : tiny;
  if (!is_softmax(spec))
    for (T s : scores) total += static_cast<double>(s);
  for (std::int64_t e = 0; e < num_experts; ++e)
    losses.aux += slopes[e] * static_cast<double>(scores[static_cast<std::size_t>(e)]) / total;
  return losses;
}

template <class T>
void route_row_backward(const RouterSpec& spec, std::int64_t num_experts, const T* logits, const std::int64_t* experts,
                        const T* dweights, const double* slopes, const RouterSeeds& seeds, T* dlogits) {
  const auto n = static_cast<std::size_t>(num_experts);
  const bool softmax = is_softmax(spec);
  std::vector<T> scores(n), dscores(n, T(0));
  row_scores(softmax, num_experts, logits, scores.data());

  // weights_k = scale * s_k / sum of the chosen.
  T sum = softmax ? T(0) : static_cast<T>(tiny), along = 0;
  const auto chosen = [&](int k) { return static_cast<std::size_t>(experts[k]); };
  for (int k = 0; k < spec.top_k; ++k) sum += scores[chosen(k)];
  if (!spec.renormalise) sum = 1;
  const T factor = static_cast<T>(spec.scale) / sum;
  if (spec.renormalise)
    for (int k = 0; k < spec.top_k; ++k) along += dweights[k] * scores[chosen(k)] / sum;
  for (int k = 0; k < spec.top_k; ++k) dscores[chosen(k)] = factor * (dweights[k] - along);

  if (slopes != nullptr && seeds.aux != 0) {
    // prob = scores for a softmax, scores / their sum for a sigmoid.
    T total = softmax ? T(1) : static_cast<T>(tiny), mean = 0;
    if (!softmax) {
      for (T s : scores) total += s;
      for (std::size_t e = 0; e < n; ++e) mean += static_cast<T>(slopes[e]) * scores[e] / total;
    }
    for (std::size_t e = 0; e < n; ++e)
      dscores[e] += static_cast<T>(seeds.aux) * (static_cast<T>(slopes[e]) - mean) / total;
  }

  if (softmax) {
    T mean = 0;
    for (std::size_t e = 0; e < n; ++e) mean += dscores[e] * scores[e];
    for (std::size_t e = 0; e < n; ++e) dlogits[e] = scores[e] * (dscores[e] - mean);
  } else {
    for (std::size_t e = 0; e < n; ++e) dlogits[e] = dscores[e] * scores[e] * (T(1) - scores[e]);
  }
  if (seeds.z != 0) {
    T largest, total;
    row_exponentials(num_experts, logits, scores.data(), largest, total);
    const T factor_z = static_cast<T>(2 * seeds.z) * (largest + std::log(total)) / total;
    for (std::size_t e = 0; e < n; ++e) dlogits[e] += factor_z * scores[e];
  }
}

void sort_slots(const std::int64_t* experts, std::int64_t slots, std::int64_t num_experts, std::int64_t* order,
                std::int64_t* inverse, std::vector<std::int64_t>& counts) {
  counts.assign(static_cast<std::size_t>(num_experts), 0);
  for (std::int64_t i = 0; i < slots; ++i) ++counts[static_cast<std::size_t>(experts[i])];
  std::vector<std::int64_t> next(counts.size(), 0);
  for (std::size_t e = 1; e < counts.size(); ++e) next[e] = next[e - 1] + counts[e - 1];
  for (std::int64_t i = 0; i < slots; ++i) {
    const std::int64_t row = next[static_cast<std::size_t>(experts[i])]++;
    order[row] = i;
    inverse[i] = row;
  }
}

#define INSTANTIATE(T)                                                                                              \
  template void route_rows<T>(const RouterSpec&, std::int64_t, const float*, std::int64_t, const T*, std::int64_t*, \
                              T*);                                                                                  \
  template RouterLosses router_losses<T>(const RouterSpec&, std::int64_t, const T*, const double*);                 \
  template void route_row_backward<T>(const RouterSpec&, std::int64_t, const T*, const std::int64_t*, const T*,     \
                                      const double*, const RouterSeeds&, T*);
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace trireme::nn::cpu
