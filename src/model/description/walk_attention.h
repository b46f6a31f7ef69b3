// The attention block, or the linear mixer in its place. Included by walk.h.
#pragma once
#include "model/description/walk.h"
#include "model/flops.h"

namespace trireme::model {

template <class Sink>
void Walk<Sink>::attention_block(int layer) {
  segment = Segment::attention;
  const ModelSpec& m = s.model;
  const Mixer mixer = m.mixer(layer);
  const double D = m.hidden;
  const int outer = group({{Recompute::attention, RerunGroup::attention_block}});
  const int n = norm({.name = "attention norm",
                      .out_name = "normed input",
                      .in = stream,
                      .tokens = z.split_tokens,
                      .width = D,
                      .group = outer != none            ? outer
                               : s.kernels.remakes_norm ? int{first_norm}
                                                        : group({{Recompute::norm, first_norm}}),
                      // Tiled: forward it starts the call of the projection, backward it runs where heads turn back.
                      .calls = {.forward = 1, .input_gradient = 0},
                      .in_tile = true,
                      .gradient_in_tile = true});
  const Mixed mixed = mixer == Mixer::linear                          ? linear_mixer(n, outer)
                      : m.attention.kind == AttentionKind::latent ? latent_attention(n, layer, outer)
                                                                  : grouped_attention(n, layer, outer);
  tensor_in(mixed.gathered);
  const AttentionSpec& a = m.attention;
  // Tiled: one call with the sum, and in an MoE layer with the norm and the router behind it; backward all the way from
  // the permutation, with the gradient of the logits and the norm once more for the router's weight.
  const bool routes = m.feed_forward(layer) == FeedForward::moe;
  const bool tiled = s.kernels.tiled;
  Linear output{.name = "output projection",
                .out_name = "attention block's output",
                .in = mixed.out,
                .tokens = z.tokens,
                .rows = D,
                .columns = held(a.num_heads, z.tp) * a.value_dim(),
                .group = outer,
                .out_bytes = branch_bytes(split(D)),
                .partial = partial(),
                .calls = {.forward = 0, .input_gradient = 0},
                .backward_scratch = tiled && routes ? tile_rows(z.tokens, D) + tile_sums(z.tokens, D) + full(m.moe.num_experts) : 0,
                .weight_scratch = tiled && routes ? full(D) : 0,
                .ends_call = tiled};
  int out = none;
  if (mixer == Mixer::linear || a.o_lora_rank > 0) {
    // Its matmul is priced with the projections of the input, as one.
    if (mixer == Mixer::linear) {
      matrix(output.name, D, held(m.linear.num_heads, z.tp) * m.linear.head_dim, WeightPlace::tensor,
             WeightRole::attention);
    } else {
      // Each group of heads has a matrix of its own to the low rank; then all groups together to hidden.
      matrix("output down-projection", a.o_lora_rank, output.columns, WeightPlace::tensor, WeightRole::attention);
      matrix(output.name, D, a.o_lora_rank * held(a.o_groups, z.tp), WeightPlace::tensor, WeightRole::attention);
    }
    out = linear_tensors(output);
  } else {
    out = linear(output);
  }
  if (mixer == Mixer::attention && a.output_bias)
    vector("output bias", D, WeightPlace::whole, WeightRole::attention);
  tensor_out();
  residual({.norm = "norm behind attention",
            .dropout = "dropout behind attention",
            .sum = "sum behind attention",
            .calls = {.input_gradient = routes ? 0.0 : 1.0}},
           out, outer);
}

// The whole-layer communication of tensor parallelism around a block: in, the tokens are gathered (or nothing); out,
// the partial sums are scattered (or reduced everywhere). The backward mirrors it; with sequence parallelism the input
// is gathered again for the weight gradient, beside the input gradient's matmul (Megatron-LM).
template <class Sink>
void Walk<Sink>::tensor_in(double width) {
  if (z.tp == 1) return;
  const double bytes = full(width);
  if (z.sequence_parallel) {
    collective("gather of the block's input", Part::projection, OperatorPass::forward, CollectiveKind::all_gather,
               Axis::tp, bytes, z.tensor_beside);
    collective("scatter of the block's input gradient", Part::projection, OperatorPass::input_gradient,
               CollectiveKind::reduce_scatter, Axis::tp, bytes, z.tensor_beside);
    collective("gather of the block's input for weight gradients", Part::projection, OperatorPass::input_gradient,
               CollectiveKind::all_gather, Axis::tp, bytes, /*beside=*/true);
  } else {
    collective("sum of the block's input gradient", Part::projection, OperatorPass::input_gradient,
               CollectiveKind::all_reduce, Axis::tp, bytes, z.tensor_beside);
  }
}

template <class Sink>
void Walk<Sink>::tensor_out() {
  if (z.tp == 1) return;
  const double bytes = full(s.model.hidden);
  if (z.sequence_parallel) {
    collective("scatter of the block's output", Part::projection, OperatorPass::forward,
               CollectiveKind::reduce_scatter, Axis::tp, bytes, z.tensor_beside);
    collective("gather of the block's output gradient", Part::projection, OperatorPass::input_gradient,
               CollectiveKind::all_gather, Axis::tp, bytes, z.tensor_beside);
  } else {
    collective("sum of the block's output", Part::projection, OperatorPass::forward, CollectiveKind::all_reduce,
               Axis::tp, bytes, z.tensor_beside);
  }
}

template <class Sink>
typename Walk<Sink>::Mixed Walk<Sink>::grouped_attention(int n, int layer, int outer) {
  const AttentionSpec& a = s.model.attention;
  const double D = s.model.hidden, heads = held(a.num_heads, z.tp), kv = held(a.num_kv_heads, z.tp), d = a.head_dim,
               dv = a.value_dim(), keys = kv * (a.shared_kv ? d : d + dv);
  const bool rare = a.o_lora_rank > 0 || a.shared_kv || s.model.compression(layer) > 0;
  Linear projection{
      .name = "query, key and value projection",
      .out_name = "queries, keys and values",
      .in = n,
      .tokens = z.tokens,
      .rows = heads * d + keys,
      .columns = D,
      .group = outer,
      .gathered = gathered(D),
      .forward_scratch = a.qk_norm ? 0 : tile_rows(z.tokens, D),
      .backward_scratch = tile_rows(z.tokens, D) + tile_sums(z.tokens, D + 2 * d),
      .weight_scratch = s.kernels.tiled ? full(D) : 0,
      .weight_input = s.kernels.remakes_norm ? stream : none};
  if (a.q_lora_rank > 0) {
    matrix("query down-projection", a.q_lora_rank, D, WeightPlace::whole, WeightRole::attention);
    vector("query latent norm", a.q_lora_rank, WeightPlace::whole, WeightRole::attention);
    matrix("query up-projection", heads * d, a.q_lora_rank, WeightPlace::tensor, WeightRole::attention);
    matrix("key and value projection", keys, D, WeightPlace::tensor, WeightRole::attention);
  } else {
    matrix(projection.name, projection.rows, D, WeightPlace::tensor, WeightRole::attention);
  }
  if (rare) {
    // All projections of the block, those of compressed keys and the output's included, as one matmul.
    if constexpr (Sink::operators) {
      matmul("projections", Part::projection, z.tokens, projection_elements(s.model, layer) / D / z.tp, D);
      elementwise("rotation and compression", Part::projection, z.tokens * (heads + kv) * d, 3, 3, 8);
    }
  } else {
    // Tiled: norms of heads and rotation are one pass, whose backward starts a call.
    const double turned = z.tokens * (heads + kv) * d;
    matmul(projection.name, Part::projection, z.tokens, heads * d + kv * (d + dv), D,
           {.forward = 0, .input_gradient = 0});
    if (a.qk_norm) {
      if (s.kernels.tiled)
        elementwise("query and key norms", Part::norm, turned, 1, 1, 0, {.forward = 0, .input_gradient = 0});
      else
        norm_operator("query and key norms", turned);
    }
    if (a.rope_fraction > 0 && s.model.learned_positions == 0)
      elementwise("rotation", Part::projection, turned, 2, 2, 2, {.forward = 0});
  }
  if (a.bias) vector("query, key and value bias", heads * d + keys, WeightPlace::tensor, WeightRole::attention);
  if (a.output_gate) matrix("output gate", heads * dv, D, WeightPlace::tensor, WeightRole::attention);
  if (a.qk_norm && a.q_lora_rank == 0)
    vector("query norm", a.qk_norm_joint ? heads * d : d, WeightPlace::whole, WeightRole::attention);
  if (a.shared_kv)
    vector("key norm", d, WeightPlace::whole, WeightRole::attention);
  else if (a.qk_norm)
    vector("key norm", a.qk_norm_joint ? kv * d : d, WeightPlace::whole, WeightRole::attention);
  if (a.sinks) vector("sinks", heads, WeightPlace::tensor, WeightRole::attention);
  compressed_keys(layer);

  const int qkv = linear_tensors(projection);
  if (!s.kernels.rotated_copies) {
    if (!a.qk_norm) return {core(qkv, none, none, none, layer, outer), D};
    const int turned = tensor("normed queries and keys", full((heads + kv) * d), 0);
    const int stat = tensor("norm statistics", z.tokens * (heads + kv) * wide, 0);
    record([&] {
      return Tape::Operator{.name = "norm of queries and keys",
                            .in = {qkv},
                            .out = {turned, stat},
                            .saved = {qkv, stat},
                            .group = outer,
                            .forward_workspace = tile_rows(z.tokens, D),
                            .weight_bytes = row(1, 2 * d)};
    });
    return {core(turned, none, qkv, none, layer, outer), D};
  }
  int source = qkv;
  if (a.qk_norm) {
    source = tensor("normed queries and keys", full(heads * d + kv * (d + dv)));
    const int stat = tensor("norm statistics", z.tokens * (heads + kv) * wide, 0);
    record([&] {
      return Tape::Operator{.name = "norm of queries and keys",
                            .in = {qkv},
                            .out = {source, stat},
                            .saved = {qkv, stat},
                            .group = outer};
    });
  }
  const int q = tensor("queries", full(heads * d)), k = tensor("keys", full(kv * d)), v = tensor("values", full(kv * dv));
  const double angle_bytes = s.kernels.rotation_kept_bytes * z.tokens * d;
  const int angles = angle_bytes > 0 ? tensor("sines and cosines", angle_bytes, 0) : none;
  record([&] {
    return Tape::Operator{.name = "rotation",
                          .in = {source},
                          .out = {q, k, v, angles},
                          .saved = {angles},
                          .group = outer,
                          .backward_workspace = full((heads + kv) * d)};
  });
  return {core(q, k, v, qkv, layer, outer), D};
}

// Keys and the weights that compress them, a position table and a norm, and the same of an index. Layers with an index
// overlap their windows, so they have both twice. Optimizers of whole matrices leave these to the others.
template <class Sink>
void Walk<Sink>::compressed_keys(int layer) {
  if constexpr (!Sink::weights) return;
  const AttentionSpec& a = s.model.attention;
  const double ratio = s.model.compression(layer), D = s.model.hidden;
  if (ratio == 0) return;
  const auto rest = [&](const char* name, double rows, double columns, bool multiplies) {
    weight(name, rows, columns, WeightKind::vector, WeightPlace::whole, WeightRole::attention, false, multiplies);
  };
  const auto compressor = [&](double width, bool overlap) {
    const double both = (overlap ? 2 : 1) * width;
    rest("compression of keys", 2 * both, D, true);
    rest("positions of compressed keys", ratio, both, false);
    rest("norm of compressed keys", width, 1, false);
  };
  const bool index = ratio == a.index_compression;
  compressor(a.head_dim, index);
  if (!index) return;
  rest("queries of the index", double(a.index_heads) * a.index_head_dim, a.q_lora_rank > 0 ? a.q_lora_rank : D, true);
  rest("weights of the index", a.index_heads, D, true);
  compressor(a.index_head_dim, true);
}

template <class Sink>
typename Walk<Sink>::Mixed Walk<Sink>::latent_attention(int n, int layer, int outer) {
  const AttentionSpec& a = s.model.attention;
  const double D = s.model.hidden, R = z.split_tokens, T = z.tokens, heads = held(a.num_heads, z.tp), v = a.value_dim(),
               d = a.head_dim, kv_rank = a.kv_lora_rank, down = kv_rank + a.qk_rope_dim;
  const int up = outer != none ? outer : group({{Recompute::mla_up_projection, up_projection}});
  // Down-projections are whole on each rank and run on its part of the sequence; what is gathered is narrow.
  Linear query{.name = "query projection",
               .out_name = "queries before rotation",
               .in = n,
               .tokens = T,
               .rows = heads * d,
               .columns = D,
               .group = up,
               .gathered = gathered(D)};
  double gathered_width = D + down;
  if (a.q_lora_rank > 0) {
    const double rank = a.q_lora_rank;
    const int latent = linear({.name = "query down-projection",
                               .out_name = "query latent",
                               .in = n,
                               .tokens = R,
                               .rows = rank,
                               .columns = D,
                               .place = WeightPlace::whole,
                               .group = outer});
    query.in = norm({.name = "query latent norm",
                     .out_name = "normed query latent",
                     .in = latent,
                     .tokens = R,
                     .width = rank,
                     .group = up,
                     .role = WeightRole::attention});
    query.name = "query up-projection", query.part = Part::mla_up;
    query.columns = rank, query.gathered = gathered(rank);
    gathered_width = rank + down;
  }
  const int kv_latent = linear({.name = "key and value down-projection",
                                .out_name = "key-value latent",
                                .in = n,
                                .tokens = R,
                                .rows = down,
                                .columns = D,
                                .place = WeightPlace::whole,
                                .group = outer});
  const int kv_source = norm({.name = "key and value latent norm",
                              .out_name = "normed key-value latent",
                              .in = kv_latent,
                              .tokens = R,
                              .width = kv_rank,
                              .group = up,
                              .role = WeightRole::attention});
  const int q_up = linear(query);
  const int kv_up = linear({.name = "key and value up-projection",
                            .out_name = "keys and values before rotation",
                            .in = kv_source,
                            .tokens = T,
                            .rows = heads * (a.qk_nope_dim + v),
                            .columns = kv_rank,
                            .part = Part::mla_up,
                            .group = up,
                            .gathered = gathered(kv_rank)});
  // Rotated parts of queries in place; keys put together from their two parts and values apart from them.
  elementwise("rotation", Part::mla_up, T * heads * (2 * a.qk_rope_dim + a.qk_nope_dim + v + d + v), 1, 1, 4);
  const int q = tensor("queries", full(heads * d)), k = tensor("keys", full(heads * d)),
            values = tensor("values", full(heads * v));
  record([&] { return Tape::Operator{.name = "rotation of queries", .in = {q_up}, .out = {q}, .group = up}; });
  record([&] { return Tape::Operator{.name = "rotation of keys", .in = {kv_up}, .out = {k, values}, .group = up}; });
  if (a.bias) vector("query bias", heads * d, WeightPlace::tensor, WeightRole::attention);
  if (a.qk_norm && a.q_lora_rank == 0)
    vector("query norm", a.qk_norm_joint ? heads * d : d, WeightPlace::whole, WeightRole::attention);
  if (a.output_gate) matrix("output gate", heads * v, D, WeightPlace::tensor, WeightRole::attention);
  if (a.sinks) vector("sinks", heads, WeightPlace::tensor, WeightRole::attention);
  compressed_keys(layer);
  return {core(q, k, values, none, layer, outer), gathered_width};
}

// Mamba-2 or a gated delta net: the projection of the input, what the convolution gives, and the mixed output, which
// its norm or gate reads.
template <class Sink>
typename Walk<Sink>::Mixed Walk<Sink>::linear_mixer(int n, int outer) {
  const LinearMixerSpec& l = s.model.linear;
  const bool mamba = l.kind == LinearMixerKind::mamba2;
  const double D = s.model.hidden, heads = held(l.num_heads, z.tp), inner = heads * l.head_dim,
               state = 2 * held(l.num_groups, z.tp) * l.state_dim, steps = (mamba ? 1 : 2) * heads;
  const auto own = [&](const char* name, double rows, double columns, WeightKind kind, bool accumulates) {
    weight(name, rows, columns, kind, WeightPlace::tensor, WeightRole::attention, accumulates,
           kind == WeightKind::matrix && accumulates);
  };
  own("mixer's input projection", 2 * inner + state + steps, D, WeightKind::matrix, true);
  own("convolution", inner + state, l.conv_width, WeightKind::matrix, false);
  if (mamba)
    own("convolution's bias, rates and skips", inner + state + 3 * heads, 1, WeightKind::vector, false);
  else
    own("rates", 2 * heads, 1, WeightKind::vector, false);
  own("mixer's norm", mamba ? inner : l.head_dim, 1, WeightKind::vector, false);
  // The output's projection included.
  matmul("mixer projections", Part::projection, z.tokens, 3 * inner + state + steps, D);
  // The scan is bound by memory: it passes over its inputs a few times.
  elementwise("convolution and scan", Part::core, z.tokens * inner, 12, 24, 6);

  const int in = linear_tensors({.name = "mixer's input projection",
                                 .out_name = "mixer's projections",
                                 .in = n,
                                 .group = outer,
                                 .out_bytes = full(2 * inner + state + heads),
                                 .gathered = gathered(D)});
  const int conv = tensor("convolved projections", full(inner + state));
  record([&] {
    return Tape::Operator{.name = "convolution", .in = {in}, .out = {conv}, .saved = {in}, .group = outer};
  });
  const int mixed = tensor("mixed", full(inner));
  record([&] { return Tape::Operator{.name = "scan", .in = {conv}, .out = {mixed}, .saved = {conv}, .group = outer}; });
  return {norm_tensors({.name = "mixer's norm",
                        .out_name = "normed mixed",
                        .in = mixed,
                        .tokens = z.tokens,
                        .width = inner,
                        .group = outer}),
          D};
}

// Queries, keys and values to the attention's output; keys and values may be none, where they are parts of what goes
// before. `projection`: what values may be a view of.
template <class Sink>
int Walk<Sink>::core(int q, int k, int v, int projection, int layer, int outer) {
  if constexpr (Sink::operators) core_operators(layer);
  if constexpr (Sink::tensors) return core_tensors(q, k, v, projection, outer);
  return 0;
}

template <class Sink>
void Walk<Sink>::core_operators(int layer) {
  const AttentionSpec& a = s.model.attention;
  const double T = z.tokens, heads = held(a.num_heads, z.tp);
  const auto length = static_cast<std::int64_t>(z.sequence_length);
  if (s.execution.fused_attention) {
    const double flops = T * score_flops(s.model, layer, length) / z.tp;  // with a model's index scores
    // The backward computes the scores once more: 5 matmuls for 2.
    attention_pass("attention", OperatorPass::forward, flops, 1);
    attention_pass("attention", OperatorPass::input_gradient, 2.5 * flops, launches(2, 1));
  } else {
    const double keys =
        keys_per_query(s.model, layer, length, {.square = AttentionSquare::full, .windows = false});
    const double scores = T * keys * heads, batch = heads * z.sequences, m = T / z.sequences;
    batched("scores", Part::core, OperatorPass::forward, m, keys, a.head_dim, batch);
    batched("weighted values", Part::core, OperatorPass::forward, m, a.value_dim(), keys, batch);
    batched("scores", Part::core, OperatorPass::input_gradient, m, keys, a.head_dim, 2 * batch);
    batched("weighted values", Part::core, OperatorPass::input_gradient, m, a.value_dim(), keys, 2 * batch);
    // Of 2-byte scores: softmax reads and writes, dropout reads, writes and keeps a byte of mask; backward the same
    // with the saved probabilities read.
    const bool drops = s.execution.dropout;
    memory("softmax and dropout", Part::core, OperatorPass::forward, (drops ? 9 : 4) * scores, drops ? 2 : 1);
    memory("softmax and dropout", Part::core, OperatorPass::input_gradient, (drops ? 11 : 6) * scores, drops ? 2 : 1);
  }
  if (z.cp == 1) return;
  // Each rank's keys and values travel to all others; gradients come back.
  const double bytes = full(z.cp * held(a.num_kv_heads, z.tp) * (a.head_dim + a.value_dim()));
  collective("keys and values of other ranks", Part::core, OperatorPass::forward, CollectiveKind::all_gather, Axis::cp,
             bytes, true);
  collective("keys and values of other ranks", Part::core, OperatorPass::input_gradient, CollectiveKind::all_gather,
             Axis::cp, bytes, true);
  collective("gradients of keys and values", Part::core, OperatorPass::input_gradient, CollectiveKind::reduce_scatter,
             Axis::cp, bytes, true);
}

template <class Sink>
int Walk<Sink>::core_tensors(int q, int k, int v, int projection, int outer) {
  const AttentionSpec& a = s.model.attention;
  const double heads = held(a.num_heads, z.tp), bytes = full(heads * a.value_dim());
  const int in_core = outer != none ? outer : group({{Recompute::core_attention, RerunGroup::core_attention}});
  const int out = tensor("attention output", bytes);
  if (s.kernels.flash_attention && s.execution.fused_attention) {
    const int lse = tensor("attention log-sum-exp", z.tokens * heads * wide, 0);
    // Of a thread's block of queries: scores, and their gradients.
    const double block = double(s.kernels.attention_block_queries) * z.threads * z.sequence_length * element;
    record([&] {
      return Tape::Operator{
          .name = "attention",
          .in = {q, k, v},
          .out = {out, lse},
          .saved = {q, k, s.kernels.views_of_projection && projection != none ? projection : v, out, lse},
          .group = in_core,
          .forward_workspace = block,
          .backward_workspace = bytes_of(q) / element * s.kernels.attention_workspace_bytes + 2 * block,
          .ends_call = s.kernels.tiled};
    });
    return exchanged(out, bytes, in_core);
  }
  const double square = z.tokens * z.sequence_length * heads;
  const int scores = tensor("attention scores", square * element);
  const int probs = tensor("attention probabilities", square * element);
  record([&] {
    return Tape::Operator{
        .name = "attention scores", .in = {q, k}, .out = {scores}, .saved = {q, k}, .group = in_core};
  });
  record([&] {
    return Tape::Operator{
        .name = "attention softmax", .in = {scores}, .out = {probs}, .saved = {probs}, .group = in_core};
  });
  int weights = probs;
  if (s.kernels.dropout) {
    weights = tensor("attention probabilities, dropped out", square * element);
    const int mask = tensor("attention dropout mask", square, 0);
    record([&] {
      return Tape::Operator{.name = "attention dropout",
                            .in = {probs},
                            .out = {weights, mask},
                            .saved = {mask},
                            .group = in_core};
    });
  }
  const int values = v != none ? v : q;
  record([&] {
    return Tape::Operator{.name = "attention over values",
                          .in = {weights, values},
                          .out = {out},
                          .saved = {weights, values},
                          .group = in_core};
  });
  return exchanged(out, bytes, in_core);
}

// Context parallelism by heads: the output goes back to the ranks of its tokens.
template <class Sink>
int Walk<Sink>::exchanged(int out, double bytes, int group) {
  if (z.cp == 1 || !s.kernels.context_output_twice) return out;
  const int back = tensor("attention output, by token", bytes);
  record([&] {
    return Tape::Operator{.name = "exchange of the attention's output", .in = {out}, .out = {back}, .group = group};
  });
  return back;
}

}  // namespace trireme::model
