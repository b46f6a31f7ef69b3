#include "nn/cpu/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "nn/cpu/gemm.h"
#include "nn/cpu/simd.h"
#include "nn/cpu/tasks.h"
#include "nn/fresh.h"

namespace trireme::nn::cpu {
namespace {

constexpr std::int64_t query_block = 64;

// Loops over the keys that a row sees run on to a whole vector, over keys hidden from it, so that none has a scalar
// tail.
constexpr std::int64_t vector_keys = 16;
TRIREME_INLINE std::int64_t padded_keys(std::int64_t seen, std::int64_t keys) {
  const std::int64_t whole = (seen + vector_keys - 1) / vector_keys * vector_keys;
  return whole < keys ? whole : keys;
}

// Rows of scores (row r sees `first + r + 1` keys) become probabilities; what lies behind becomes zero, for the
// product with the values.
template <class T>
TRIREME_INLINE void softmax_rows(std::int64_t rows, std::int64_t first, std::int64_t keys, T scale, T* scores, T* lse,
                                 std::int64_t lse_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = scores + r * keys;
    const std::int64_t seen = first + r + 1, padded = padded_keys(seen, keys);
    // Hidden keys count as the first one in the maximum, and then as nothing.
    for (std::int64_t i = seen; i < padded; ++i) row[i] = row[0];
    T largest = row[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < padded; ++i) largest = row[i] > largest ? row[i] : largest;
    for (std::int64_t i = seen; i < padded; ++i) row[i] = largest - T(1000) / scale;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < padded; ++i) {
      row[i] = exponential((row[i] - largest) * scale);
      sum += row[i];
    }
    const T inverse = T(1) / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < padded; ++i) row[i] *= inverse;
    for (std::int64_t i = seen; i < keys; ++i) row[i] = 0;
    lse[r * lse_stride] = largest * scale + std::log(sum);
  }
}

// scores -> probabilities (from the stored lse), dprobs -> dscores.
template <class T>
TRIREME_INLINE void softmax_rows_backward(std::int64_t rows, std::int64_t first, std::int64_t keys, std::int64_t width,
                                          T scale, const T* lse, std::int64_t lse_stride, const T* out, const T* dout,
                                          std::int64_t out_stride, T* scores, T* gradient) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T *row = scores + r * keys, *d = gradient + r * keys;
    const std::int64_t seen = first + r + 1, padded = padded_keys(seen, keys);
    T along = 0;
#pragma omp simd reduction(+ : along)
    for (std::int64_t i = 0; i < width; ++i) along += out[r * out_stride + i] * dout[r * out_stride + i];
    const T offset = lse[r * lse_stride];
#pragma omp simd
    for (std::int64_t i = 0; i < padded; ++i) {
      const T p = exponential(row[i] * scale - offset);
      row[i] = p;
      d[i] = p * (d[i] - along) * scale;
    }
    for (std::int64_t i = seen; i < keys; ++i) row[i] = d[i] = 0;
  }
}

#define CLONES(T)                                                                                                     \
  TRIREME_CLONES void softmax_block(std::int64_t rows, std::int64_t first, std::int64_t keys, T scale, T* scores,     \
                                    T* lse, std::int64_t lse_stride) {                                                \
    softmax_rows(rows, first, keys, scale, scores, lse, lse_stride);                                                  \
  }                                                                                                                   \
  TRIREME_CLONES void softmax_block_backward(                                                                         \
      std::int64_t rows, std::int64_t first, std::int64_t keys, std::int64_t width, T scale, const T* lse,            \
      std::int64_t lse_stride, const T* out, const T* dout, std::int64_t out_stride, T* scores, T* gradient) {        \
    softmax_rows_backward(rows, first, keys, width, scale, lse, lse_stride, out, dout, out_stride, scores, gradient); \
  }
CLONES(float)
CLONES(double)

std::int64_t longest(const std::vector<DocumentSpan>& spans) {
  std::int64_t length = 0;
  for (const DocumentSpan& s : spans) length = std::max(length, s.length);
  return length;
}

template <class T>
at::Tensor scratch(std::int64_t elements) {
  return fresh({at::get_num_threads(), elements}, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
}

// `block_elements`: scores of the largest block of queries.
template <class T>
void attend_runs(const AttentionShape& shape, const std::vector<QueryRun<T>>& runs, std::int64_t block_elements,
                 Heads<const T> q, T* out, T* lse) {
  const std::int64_t heads = shape.query_heads, h = shape.head_dim, group = heads / shape.kv_heads;
  const T scale = T(1) / std::sqrt(static_cast<T>(h));
  const at::Tensor scratch_scores = scratch<T>(block_elements);
  parallel_tasks(static_cast<std::int64_t>(runs.size()) * heads, [&](std::int64_t task, int thread) {
    const QueryRun<T>& run = runs[static_cast<std::size_t>(task / heads)];
    const std::int64_t head = task % heads;
    const T *keys_of = run.k.data + head / group * h, *values_of = run.v.data + head / group * h;
    T* scores = scratch_scores.mutable_data_ptr<T>() + thread * block_elements;
    for (std::int64_t first = 0; first < run.rows; first += query_block) {
      const std::int64_t rows = std::min(query_block, run.rows - first), keys = run.past + first + rows;
      const std::int64_t row = run.first + first;
      gemm<T>(rows, keys, h, {q.data + row * q.stride + head * h, q.stride}, {keys_of, run.k.stride, true}, T(0),
              scores, keys);
      softmax_block(rows, run.past + first, keys, scale, scores, lse + row * heads + head, heads);
      gemm<T>(rows, h, keys, {scores, keys}, {values_of, run.v.stride}, T(0), out + row * heads * h + head * h,
              heads * h);
    }
  });
}

}  // namespace

template <class T>
void attention_forward(const AttentionShape& shape, const std::vector<QueryRun<T>>& runs, Heads<const T> q, T* out,
                       T* lse) {
  std::int64_t block_elements = 0;
  for (const QueryRun<T>& run : runs)
    block_elements = std::max(block_elements, std::min(query_block, run.rows) * (run.past + run.rows));
  attend_runs<T>(shape, runs, block_elements, q, out, lse);
}

template <class T>
void attention_forward(const AttentionShape& shape, const std::vector<DocumentSpan>& spans, Heads<const T> q,
                       Heads<const T> k, Heads<const T> v, T* out, T* lse) {
  std::vector<QueryRun<T>> runs;
  for (const DocumentSpan& span : spans) {
    const std::int64_t token = span.sequence * shape.sequence_length + span.begin;
    runs.push_back({.first = token,
                    .rows = span.length,
                    .k = {k.data + token * k.stride, k.stride},
                    .v = {v.data + token * v.stride, v.stride}});
  }
  attend_runs<T>(shape, runs, query_block * longest(spans), q, out, lse);
}

template <class T>
void attention_backward(const AttentionShape& shape, const std::vector<DocumentSpan>& spans, Heads<const T> q,
                        Heads<const T> k, Heads<const T> v, const T* out, const T* lse, const T* dout, Heads<T> dq,
                        Heads<T> dk, Heads<T> dv) {
  const std::int64_t heads = shape.query_heads, h = shape.head_dim, group = heads / shape.kv_heads;
  const T scale = T(1) / std::sqrt(static_cast<T>(h));
  const std::int64_t block_elements = query_block * longest(spans);
  const at::Tensor scratch_both = scratch<T>(2 * block_elements);
  // One task for a key/value head: it alone adds to that head's dk and dv, in a fixed order.
  parallel_tasks(static_cast<std::int64_t>(spans.size()) * shape.kv_heads, [&](std::int64_t task, int thread) {
    const DocumentSpan& span = spans[static_cast<std::size_t>(task / shape.kv_heads)];
    const std::int64_t kv = task % shape.kv_heads, token = span.sequence * shape.sequence_length + span.begin;
    const T* keys_of = k.data + token * k.stride + kv * h;
    const T* values_of = v.data + token * v.stride + kv * h;
    T *dkeys_of = dk.data + token * dk.stride + kv * h, *dvalues_of = dv.data + token * dv.stride + kv * h;
    T* scores = scratch_both.mutable_data_ptr<T>() + thread * 2 * block_elements;
    T* gradient = scores + block_elements;
    // The last block of queries sees all keys: started from there, the first product writes and the others add.
    const std::int64_t last = (span.length - 1) / query_block * query_block;
    for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head)
      for (std::int64_t first = last; first >= 0; first -= query_block) {
        const std::int64_t rows = std::min(query_block, span.length - first), keys = first + rows, t = token + first;
        const T* query = q.data + t * q.stride + head * h;
        const T* dout_of = dout + t * heads * h + head * h;
        const T beta = head == kv * group && first == last ? T(0) : T(1);
        gemm<T>(rows, keys, h, {query, q.stride}, {keys_of, k.stride, true}, T(0), scores, keys);
        gemm<T>(rows, keys, h, {dout_of, heads * h}, {values_of, v.stride, true}, T(0), gradient, keys);
        softmax_block_backward(rows, first, keys, h, scale, lse + t * heads + head, heads,
                               out + t * heads * h + head * h, dout_of, heads * h, scores, gradient);
        gemm<T>(rows, h, keys, {gradient, keys}, {keys_of, k.stride}, T(0), dq.data + t * dq.stride + head * h,
                dq.stride);
        gemm<T>(keys, h, rows, {gradient, keys, true}, {query, q.stride}, beta, dkeys_of, dk.stride);
        gemm<T>(keys, h, rows, {scores, keys, true}, {dout_of, heads * h}, beta, dvalues_of, dv.stride);
      }
  });
}

#define INSTANTIATE(T)                                                                                         \
  template void attention_forward<T>(const AttentionShape&, const std::vector<QueryRun<T>>&, Heads<const T>,   \
                                     T*, T*);                                                                  \
  template void attention_forward<T>(const AttentionShape&, const std::vector<DocumentSpan>&, Heads<const T>,  \
                                     Heads<const T>, Heads<const T>, T*, T*);                                  \
  template void attention_backward<T>(const AttentionShape&, const std::vector<DocumentSpan>&, Heads<const T>, \
                                      Heads<const T>, Heads<const T>, const T*, const T*, const T*, Heads<T>,  \
                                      Heads<T>, Heads<T>);
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace trireme::nn::cpu
