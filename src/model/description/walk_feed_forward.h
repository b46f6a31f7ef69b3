// The feed-forward block: its norm, a dense feed-forward or experts (walk_experts.h), and the residual behind it.
// Included by walk.h.
#pragma once
#include "model/description/walk.h"

namespace trireme::model {

template <class Sink>
void Walk<Sink>::feed_forward_block(int layer) {
  const ModelSpec& m = s.model;
  const bool is_moe = m.feed_forward(layer) == FeedForward::moe;
  segment = is_moe ? Segment::attention : Segment::mlp;  // the router's input is made where the router is
  const int outer = is_moe ? group({{Recompute::moe, moe_block}}) : group({{Recompute::mlp, mlp_block}});
  const int n = norm(
      {.name = "feed-forward's norm",
       .out_name = "feed-forward's input",
       .in = stream,
       .tokens = z.split_tokens,
       .width = double(m.hidden),
       // A shared expert gets it from outside of the router's kernels: then it stays.
       .group = s.kernels.remakes_norm && !(is_moe && m.moe.shared_ffn > 0) ? int{second_norm}
                                                                            : group({{Recompute::norm, second_norm}}),
       // Tiled: an MoE layer's is in the call of the sum before it, and its gradient in a tile's scratch
       // unless a shared expert makes it; a dense one has a call of its own, two in the backward.
       .calls = is_moe ? Calls{.forward = 0, .input_gradient = 0} : Calls{.forward = 1, .input_gradient = 2},
       .gradient_in_tile = is_moe && m.moe.shared_ffn == 0});
  Ending ending{.norm = "norm behind the feed-forward",
                .dropout = "dropout behind the feed-forward",
                .sum = "sum behind the feed-forward",
                .calls = {.forward = 0, .input_gradient = 0}};
  int out = none;
  if (is_moe) {
    out = moe(n, outer);
  } else {
    ending.scratch = tile_rows(z.tokens, held(m.dense_ffn, z.tp));
    tensor_in(m.hidden);
    out = pair({"first matmul", "gated", "second matmul", "feed-forward's output"},
               {.tokens = z.tokens,
                .width = double(m.hidden),
                .ffn = held(m.dense_ffn, z.tp),
                .bias = m.mlp_bias,
                .adds = true},
               n, outer, activation, none);
    tensor_out();
  }
  residual(ending, out, group({}));
}

// A gated (or plain) pair of matmuls around an activation, of one expert of each group or a dense feed-forward.
template <class Sink>
int Walk<Sink>::pair(const Pair& names, const FeedForwardShape& f, int in, int outer, RerunGroup own, int scores) {
  const bool gated_pair = s.model.gated, over_tensor_ranks = f.place == WeightPlace::tensor;
  // Biases of experts make a chain of elementwise kernels of the activation (bias, clamps, gate, score; GPT-OSS).
  const bool chain = f.groups > 1 && s.model.moe.expert_bias;
  // Fused, the activation is in the epilogues: of the first matmul forward, of the second one's input gradient
  // backward. Both write what the next matmul reads, in its format; beside it the forward keeps what the backward
  // needs.
  const bool fused = f.part == Part::experts && f.groups > 1 && s.execution.fused_experts && !chain;
  const double inner = gated_pair ? 2 * f.ffn : f.ffn;
  // Tiled: one call forward; backward one for gradients of inputs and one for those of both weights, which gets the
  // activation where the activation's gradient was. The first outputs' gradient is written over them.
  const bool tiled = s.kernels.tiled;
  const double gated_bytes = row(f.tokens, f.ffn);
  const int first = linear({.name = names.first,
                            .out_name = "feed-forward's first outputs",
                            .in = in,
                            .tokens = f.tokens,
                            .rows = inner,
                            .columns = f.width,
                            .part = f.part,
                            .role = f.role,
                            .place = f.place,
                            .group = outer,
                            .gathered = over_tensor_ranks ? gathered(s.model.hidden) : 0,
                            .groups = f.groups,
                            .quantises_gradient = !fused,
                            .calls = {.forward = 1, .input_gradient = 0},
                            .backward_scratch = f.adds ? tile_sums(f.tokens, f.width) : 0,
                            .weight_scratch = tiled ? gated_bytes : 0,
                            .gradient_in_place = tiled,
                            .ends_call = tiled,
                            .weight_input = f.adds && s.kernels.remakes_norm ? stream : none});
  if (!fused)
    elementwise("activation", Part::activation, f.tokens * f.ffn,
                chain        ? 24
                : gated_pair ? 3
                             : 2,
                chain        ? 36
                : gated_pair ? (s.kernels.remakes_activation ? 6 : 5)
                             : 3,
                chain ? 12 : 1, {.forward = 0, .input_gradient = 0});
  const int act = outer != none                    ? outer
                  : s.kernels.remakes_activation ? int{own}
                                                 : group({{Recompute::activation, own}});
  const int out = tensor(names.gated, tiled ? 0 : gated_bytes, gated_bytes);
  const int half = !s.kernels.fused_gate && gated_pair ? tensor("activated half", gated_bytes, 0) : none;
  const int unscored =
      !s.kernels.fused_score && scores != none ? tensor("activated, before its score", gated_bytes, 0) : none;
  record([&] {
    return Tape::Operator{.name = "activation",
                          .in = {first, scores},
                          .out = {out, half, unscored},
                          .saved = {first, scores, half, unscored},
                          .group = act};
  });
  if (f.bias) vector("biases", inner + f.width, f.place, f.role, f.groups);
  return linear({.name = names.second,
                 .out_name = names.out,
                 .in = out,
                 .tokens = f.tokens,
                 .rows = f.width,
                 .columns = f.ffn,
                 .part = f.part,
                 .role = f.role,
                 .place = f.place,
                 .group = outer,
                 .out_bytes = f.adds              ? branch_bytes(split(f.width))
                              : over_tensor_ranks ? split(f.width)
                                                  : row(f.tokens, f.width),
                 .partial = over_tensor_ranks ? partial() : 0,
                 .groups = f.groups,
                 .quantises_input = !fused,
                 .calls = {.forward = 0, .weight_gradient = 0},
                 .forward_scratch = tile_rows(f.tokens, f.ffn)});
}

}  // namespace trireme::model
