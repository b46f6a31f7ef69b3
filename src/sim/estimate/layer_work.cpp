#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "model/flops.h"
#include "sim/estimate/work.h"
#include "sim/estimate/work_builder.h"

namespace trireme::sim {

// Legend: D hidden, T tokens of the attention on this rank, R of the residual stream, f widths on this rank.

TokenCounts token_counts(const Setting& s) {
  const double tokens = double(s.batch.micro_batch) * double(s.batch.sequence_length) / s.layout.cp;
  const bool split = s.layout.tp > 1 && s.layout.sequence_parallel;
  return {.attention = tokens, .residual = split ? tokens / s.layout.tp : tokens};
}

bool recomputes(const plan::RecomputeSet& set, Part part, bool moe) {
  using plan::Recompute;
  if (set.has(Recompute::layer)) return true;
  switch (part) {
    case Part::norm:
      return set.has(Recompute::norm);
    case Part::projection:
      return set.has(Recompute::attention);
    case Part::mla_up:
      return set.has(Recompute::attention) || set.has(Recompute::mla_up_projection);
    case Part::core:
      return set.has(Recompute::attention) || set.has(Recompute::core_attention);
    case Part::mlp:
      return !moe && set.has(Recompute::mlp);
    case Part::activation:
      return set.has(Recompute::activation) || set.has(moe ? Recompute::moe : Recompute::mlp);
    case Part::permute:
      return set.has(Recompute::permute) || set.has(Recompute::moe);
    case Part::router:
    case Part::exchange:
    case Part::experts:
      return set.has(Recompute::moe);
    case Part::head:
      return false;
  }
  return false;
}

namespace {

// The whole-layer communication of tensor parallelism around a block: in, the tokens are gathered (or nothing); out,
// the partial sums are scattered (or reduced everywhere). The backward mirrors it; with sequence parallelism the input
// is gathered again for the weight gradient, beside the input gradient's matmul (Megatron-LM).
void add_tensor_in(WorkBuilder& b, double width) {
  const Setting& s = b.setting;
  if (s.layout.tp == 1) return;
  const double bytes = b.tokens.attention * width * s.precision.activation_bytes;
  if (s.layout.sequence_parallel) {
    b.collective("gather of the block's input", Part::projection, OperatorPass::forward, CollectiveKind::all_gather,
                 Axis::tp, bytes, s.layout.overlap.tensor);
    b.collective("scatter of the block's input gradient", Part::projection, OperatorPass::input_gradient,
                 CollectiveKind::reduce_scatter, Axis::tp, bytes, s.layout.overlap.tensor);
    b.collective("gather of the block's input for weight gradients", Part::projection, OperatorPass::input_gradient,
                 CollectiveKind::all_gather, Axis::tp, bytes, /*beside=*/true);
  } else {
    b.collective("sum of the block's input gradient", Part::projection, OperatorPass::input_gradient,
                 CollectiveKind::all_reduce, Axis::tp, bytes, s.layout.overlap.tensor);
  }
}

void add_tensor_out(WorkBuilder& b) {
  const Setting& s = b.setting;
  if (s.layout.tp == 1) return;
  const double bytes = b.tokens.attention * s.model.hidden * s.precision.activation_bytes;
  if (s.layout.sequence_parallel) {
    b.collective("scatter of the block's output", Part::projection, OperatorPass::forward, CollectiveKind::reduce_scatter,
                 Axis::tp, bytes, s.layout.overlap.tensor);
    b.collective("gather of the block's output gradient", Part::projection, OperatorPass::input_gradient,
                 CollectiveKind::all_gather, Axis::tp, bytes, s.layout.overlap.tensor);
  } else {
    b.collective("sum of the block's output", Part::projection, OperatorPass::forward, CollectiveKind::all_reduce,
                 Axis::tp, bytes, s.layout.overlap.tensor);
  }
}

void add_core(WorkBuilder& b, int layer) {
  const Setting& s = b.setting;
  const model::ModelSpec& spec = s.model;
  const model::AttentionSpec& a = spec.attention;
  const double T = b.tokens.attention, heads = std::max(1.0, double(a.num_heads) / s.layout.tp);
  const bool fused = s.execution.fused_attention;
  const double keys = model::keys_per_query(
      spec, layer, s.batch.sequence_length,
      {.square = fused ? model::AttentionSquare::causal : model::AttentionSquare::full, .windows = fused});
  if (fused) {
    // With a model's index scores; the kernels fill the matrix units only with heads of 128 and more.
    const double flops = T * model::layer_flops(spec, layer, s.batch.sequence_length).scores / s.layout.tp *
                         std::sqrt(std::max(1.0, 128.0 / std::min(a.head_dim, a.value_dim())));
    // The backward computes the scores once more: 5 matmuls for 2.
    b.attention("attention", OperatorPass::forward, flops, 1);
    b.attention("attention", OperatorPass::input_gradient, 2.5 * flops, 2);
  } else {
    const double scores = T * keys * heads, batch = heads * b.sequences();
    const double m = T / b.sequences();
    b.batched("scores", Part::core, OperatorPass::forward, m, keys, a.head_dim, batch);
    b.batched("weighted values", Part::core, OperatorPass::forward, m, a.value_dim(), keys, batch);
    b.batched("scores", Part::core, OperatorPass::input_gradient, m, keys, a.head_dim, 2 * batch);
    b.batched("weighted values", Part::core, OperatorPass::input_gradient, m, a.value_dim(), keys, 2 * batch);
    // Of 2-byte scores: softmax reads and writes, dropout reads, writes and keeps a byte of mask; backward the same
    // with the saved probabilities read.
    const bool dropout = s.execution.dropout;
    b.memory("softmax and dropout", Part::core, OperatorPass::forward, (dropout ? 9 : 4) * scores, dropout ? 2 : 1);
    b.memory("softmax and dropout", Part::core, OperatorPass::input_gradient, (dropout ? 11 : 6) * scores, dropout ? 2 : 1);
  }
  if (s.layout.cp > 1) {
    // Each rank's keys and values travel to all others; gradients come back.
    const double kv = std::max(1.0, double(a.num_kv_heads) / s.layout.tp) * (a.head_dim + a.value_dim());
    const double bytes = T * s.layout.cp * kv * s.precision.activation_bytes;
    b.collective("keys and values of other ranks", Part::core, OperatorPass::forward, CollectiveKind::all_gather,
                 Axis::cp, bytes, true);
    b.collective("keys and values of other ranks", Part::core, OperatorPass::input_gradient, CollectiveKind::all_gather,
                 Axis::cp, bytes, true);
    b.collective("gradients of keys and values", Part::core, OperatorPass::input_gradient, CollectiveKind::reduce_scatter,
                 Axis::cp, bytes, true);
  }
}

void add_attention(WorkBuilder& b, int layer) {
  const Setting& s = b.setting;
  const model::ModelSpec& spec = s.model;
  const model::AttentionSpec& a = spec.attention;
  const double D = spec.hidden, T = b.tokens.attention, R = b.tokens.residual, tp = s.layout.tp;
  const double heads = std::max(1.0, a.num_heads / tp), kv = std::max(1.0, a.num_kv_heads / tp);
  const double h = a.head_dim, v = a.value_dim();
  b.norm("attention norm", R * D);
  double gathered = D;
  if (a.kind == model::AttentionKind::latent) {
    // Down-projections are whole on each rank and run on its part of the sequence; what is gathered is narrow.
    const double down_kv = a.kv_lora_rank + a.qk_rope_dim;
    if (a.q_lora_rank > 0) {
      b.matmul("query down-projection", Part::projection, R, a.q_lora_rank, D);
      b.norm("query latent norm", R * a.q_lora_rank);
      b.matmul("query up-projection", Part::mla_up, T, heads * h, a.q_lora_rank);
      gathered = a.q_lora_rank + down_kv;
    } else {
      b.matmul("query projection", Part::projection, T, heads * h, D);
      gathered = D + down_kv;
    }
    b.matmul("key and value down-projection", Part::projection, R, down_kv, D);
    b.norm("key and value latent norm", R * a.kv_lora_rank);
    b.matmul("key and value up-projection", Part::mla_up, T, heads * (a.qk_nope_dim + v), a.kv_lora_rank);
    // Rotated parts of queries in place; keys put together from their two parts and values apart from them.
    b.elementwise("rotation", Part::mla_up, T * heads * (2 * a.qk_rope_dim + a.qk_nope_dim + v + h + v), 1, 1, 4);
  } else if (a.o_lora_rank > 0 || a.shared_kv || spec.compression(layer) > 0) {
    const double columns = model::layer_flops(spec, layer, s.batch.sequence_length).projections / (2 * D);
    b.matmul("projections", Part::projection, T, columns / tp, D);
    b.elementwise("rotation and compression", Part::projection, T * (heads + kv) * h, 3, 3, 8);
  } else {
    b.matmul("query, key and value projection", Part::projection, T, heads * h + kv * (h + v), D);
    if (a.qk_norm) b.norm("query and key norms", T * (heads + kv) * h);
    if (a.rope_fraction > 0 && spec.learned_positions == 0)
      b.elementwise("rotation", Part::projection, T * (heads + kv) * h, 2, 2, 2);
  }
  add_tensor_in(b, gathered);
  add_core(b, layer);
  if (a.o_lora_rank == 0) b.matmul("output projection", Part::projection, T, D, heads * v);
  add_tensor_out(b);
  b.residual();
}

void add_linear_mixer(WorkBuilder& b, int layer) {
  const Setting& s = b.setting;
  const double D = s.model.hidden, T = b.tokens.attention;
  const auto f = model::layer_flops(s.model, layer, s.batch.sequence_length);
  b.norm("mixer norm", b.tokens.residual * D);
  b.matmul("mixer projections", Part::projection, T, f.projections / (2 * D) / s.layout.tp, D);
  add_tensor_in(b, D);
  // The scan is bound by memory: it passes over its inputs a few times.
  b.elementwise("convolution and scan", Part::core,
                T * s.model.linear.num_heads * s.model.linear.head_dim / s.layout.tp, 12, 24, 6);
  add_tensor_out(b);
  b.residual();
}

void add_dense(WorkBuilder& b) {
  const Setting& s = b.setting;
  const double D = s.model.hidden, T = b.tokens.attention, f = double(s.model.dense_ffn) / s.layout.tp;
  b.norm("feed-forward norm", b.tokens.residual * D);
  add_tensor_in(b, D);
  b.feed_forward(Part::mlp, T, D, f, 1);
  add_tensor_out(b);
  b.residual();
}

void add_moe(WorkBuilder& b) {
  const Setting& s = b.setting;
  const model::MoeSpec& moe = s.model.moe;
  const double D = s.model.hidden, R = b.tokens.residual, k = moe.router.top_k, ep = s.layout.ep, etp = s.layout.etp;
  const double width = moe.latent_dim > 0 ? moe.latent_dim : D;
  const double sent = R * k;                // rows of this rank's tokens
  const double rows = sent * etp * b.load;  // that the heaviest rank's experts compute
  const double experts = std::max(1.0, moe.num_experts / ep);
  b.norm("feed-forward norm", R * D);
  // Router: a float32 matmul in effect, then a handful of small kernels over the scores.
  b.matmul_16("router", Part::router, R, moe.num_experts, D);
  b.memory("scores and selection", Part::router, OperatorPass::forward, 20 * R * moe.num_experts, 15);
  b.memory("scores and selection", Part::router, OperatorPass::input_gradient, 16 * R * moe.num_experts, 10);
  if (moe.latent_dim > 0) {
    b.matmul("projection to the experts' width", Part::experts, R, width, D);
    b.matmul("projection from the experts' width", Part::experts, R, D, width);
  }
  // A deduplicating dispatch takes tokens as they are; what it brings is copied to each of its experts' rows once.
  const bool dedup = (s.layout.all_to_all == "dedup" || s.layout.all_to_all == "allgather") && ep > 1;
  // HALO packs rows by the node that they go to; a gather between nodes leaves every node with all of its counterparts'
  // tokens, whose sums are scattered in the combine.
  if (s.layout.all_to_all == "halo" && ep > 1) b.elementwise("rows packed by node", Part::permute, sent * width, 2, 2, 2);
  if (!dedup) b.elementwise("permutation", Part::permute, sent * width, 2, 2, 4);
  if (s.layout.ep > 1) b.exchange(sent * width);
  if (s.layout.etp > 1) {
    const double bytes = rows * width * s.precision.activation_bytes;
    b.collective("gather of rows", Part::exchange, OperatorPass::forward, CollectiveKind::all_gather, Axis::etp,
                 bytes, false);
    b.collective("scatter of rows", Part::exchange, OperatorPass::forward, CollectiveKind::reduce_scatter,
                 Axis::etp, bytes, false);
    b.collective("gather of row gradients", Part::exchange, OperatorPass::input_gradient, CollectiveKind::all_gather,
                 Axis::etp, bytes, false);
    b.collective("scatter of row gradients", Part::exchange, OperatorPass::input_gradient, CollectiveKind::reduce_scatter,
                 Axis::etp, bytes, false);
  }
  if (dedup || (experts > 1 && ep > 1)) b.elementwise("rows sorted by expert", Part::permute, rows * width, 2, 2, 2);
  b.feed_forward(Part::experts, rows / experts, width, double(moe.expert_ffn) / etp, experts);
  b.weight_gradients_apart(Part::experts);
  if (dedup || (experts > 1 && ep > 1)) b.elementwise("rows sorted back", Part::permute, rows * width, 2, 2, 2);
  if (!dedup) b.elementwise("unpermutation and weighting", Part::permute, sent * width, 2, 3, 4);
  if (moe.shared_ffn > 0) {
    add_tensor_in(b, D);
    b.set_apart(true);
    b.feed_forward(Part::experts, b.tokens.attention, D, double(moe.shared_ffn) / s.layout.tp, 1);
    b.set_apart(false);
    add_tensor_out(b);
  }
  b.residual();
}

}  // namespace

void add_layer_work(const Setting& s, int layer, OperatorList& out) {
  WorkBuilder b(s, out);
  switch (s.model.mixer(layer)) {
    case model::Mixer::attention:
      add_attention(b, layer);
      break;
    case model::Mixer::linear:
      add_linear_mixer(b, layer);
      break;
    case model::Mixer::none:
      break;
  }
  switch (s.model.feed_forward(layer)) {
    case model::FeedForward::dense:
      add_dense(b);
      break;
    case model::FeedForward::moe:
      add_moe(b);
      break;
    case model::FeedForward::none:
      break;
  }
}

}  // namespace trireme::sim
