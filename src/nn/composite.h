// The segments as plain ATen operators under autograd: the oracle of the fused CPU path, and what runs where that does
// not apply (other devices, bfloat16). There a segment's Saved holds its graph, and both halves of its backward are one.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/boundary.h"
#include "nn/model.h"
#include "nn/parameter_store.h"
#include "nn/rotary_table.h"

namespace trireme::nn {

struct SegmentContext {
  const model::ModelSpec& spec;
  const ModelOptions& options;
  int layer = -1;
  LayerParameters* parameters = nullptr;  // null for the ends
  EndParameters* ends = nullptr;
  RotaryTable* rotary = nullptr;
  at::Tensor selection_bias_E;  // undefined where the spec has none
};

// Gives a parameter's value into an autograd graph such that its gradient is added to Parameter::grad and goes no
// further. `anchor` is an input of the segment (may be undefined): the engine is asked for the inputs' gradients only
// and skips nodes that lead to none of them.
at::Tensor tapped(Parameter& parameter, const at::Tensor& anchor);

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// RoPE in the half-split convention of Hugging Face: pairs (i, i + h/2) turn by position * theta^(-2i/h).
// x (B, S, heads, h); positions (B, S).
at::Tensor rotate(const at::Tensor& x, const at::Tensor& positions_BS, double theta);

namespace composite {
// Softmax attention of (B, H, Q, h) over (B, G, K, h). `mask` (boolean, broadcast to B, H, Q, K): what a query may see;
// without one, causal attention of as many queries as keys.
at::Tensor attend(const SegmentContext& context, const at::Tensor& q_BHQh, const at::Tensor& k_BGKh,
                  const at::Tensor& v_BGKh, const std::optional<at::Tensor>& mask);
// What the heads' attention is, of a batch's queries, keys and values (B, heads, S, h).
using Attend = std::function<at::Tensor(const at::Tensor& q_BHSh, const at::Tensor& k_BGSh, const at::Tensor& v_BGSh)>;
Boundary attention(const SegmentContext& context, const Boundary& in, const Batch& batch, const Attend& attend);
// Of tokens that follow those of a cache (Model::extend).
Boundary extend_attention(const SegmentContext& context, const Boundary& in, const NewTokens& tokens,
                          KeyValueCache::Layer& cache);

Boundary embed(const SegmentContext& context, const Boundary& in, const Batch& batch);
Boundary attention(const SegmentContext& context, const Boundary& in, const Batch& batch);
Boundary shared(const SegmentContext& context, const Boundary& in);
Boundary experts(const SegmentContext& context, const Boundary& in);
Boundary combine(const SegmentContext& context, const Boundary& in);
Boundary mlp(const SegmentContext& context, const Boundary& in);
Boundary head(const SegmentContext& context, const Boundary& in, const Batch& batch, double seed);
at::Tensor logits(const SegmentContext& context, const at::Tensor& x_TD);
}  // namespace composite

}  // namespace trireme::nn
