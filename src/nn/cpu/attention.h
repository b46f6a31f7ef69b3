// Causal attention inside document spans, with grouped key/value heads. Scores exist for one block of queries at a
// time. Legend: T tokens, H query heads, G key/value heads, h head_dim; a head's rows have a stride of their own.
#pragma once
#include <cstdint>
#include <vector>

#include "nn/documents.h"

namespace trireme::nn::cpu {

struct AttentionShape {
  std::int64_t query_heads = 0, kv_heads = 0, head_dim = 0, sequence_length = 0;
};

template <class T>
struct Heads {
  T* data = nullptr;  // head i of token t at data + t * stride + i * head_dim
  std::int64_t stride = 0;
};

// out (T, H h); `lse` (T, H): logsumexp of each query's scaled scores, for the backward.
template <class T>
void attention_forward(const AttentionShape& shape, const std::vector<DocumentSpan>& spans, Heads<const T> q,
                       Heads<const T> k, Heads<const T> v, T* out, T* lse);

// Queries that are a sequence's last ones, `past` of its keys being older than all of them.
template <class T>
struct QueryRun {
  std::int64_t first = 0, rows = 0;  // of q
  std::int64_t past = 0;
  Heads<const T> k, v;  // from the sequence's first key on, past + rows of them
};

// The same for runs of queries over keys and values that lie elsewhere. out (rows of q, H h), lse (rows of q, H).
template <class T>
void attention_forward(const AttentionShape& shape, const std::vector<QueryRun<T>>& runs, Heads<const T> q, T* out,
                       T* lse);

// Writes dq, dk and dv.
template <class T>
void attention_backward(const AttentionShape& shape, const std::vector<DocumentSpan>& spans, Heads<const T> q,
                        Heads<const T> k, Heads<const T> v, const T* out, const T* lse, const T* dout, Heads<T> dq,
                        Heads<T> dk, Heads<T> dv);

}  // namespace trireme::nn::cpu
