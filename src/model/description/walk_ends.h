// The ends: embedding, head with the loss, and what an MTP block has beside its layer. Included by walk.h.
#pragma once
#include "model/description/walk.h"

namespace trireme::model {

template <class Sink>
void Walk<Sink>::embedding() {
  segment = Segment::embed;
  const double D = s.model.hidden;
  weight("embedding", vocabulary_rows(s.model, s.kernels, z.tp), D, WeightKind::table, WeightPlace::tensor,
         WeightRole::embedding, false, false);
  weight("positions", s.model.learned_positions, D, WeightKind::table, WeightPlace::whole, WeightRole::embedding, false,
         false);
  elementwise("embedding", Part::head, z.split_tokens * D, 2, s.kernels.embedding_backward_passes, 2);
}

template <class Sink>
void Walk<Sink>::head(bool own_matrix) {
  segment = Segment::head;
  const double T = z.tokens, D = s.model.hidden, rows = vocabulary_rows(s.model, s.kernels, z.tp), hidden = split(D);
  const int x = tensor("last hidden state", hidden);
  // Kernels that make norms again run this one chunk by chunk.
  const bool in_chunks = s.kernels.loss == LossKind::chunked, normed_in_chunks = in_chunks && s.kernels.remakes_norm;
  const bool tiled = in_chunks && s.kernels.tiled;
  const double chunk = std::min(double(s.kernels.loss_chunk_tokens), T);
  early = in_chunks;
  int first = 0;
  if constexpr (Sink::operators) first = sink.list.size;
  const Norm last{.name = "final norm", .out_name = "normed hidden state", .in = x, .tokens = z.split_tokens, .width = D};
  norm_weight(last.name, D);
  // In chunks the norm's output is still there in its backward, and nothing is added to.
  elementwise(last.name, Part::norm, last.tokens * D, 2, in_chunks ? 3 : s.kernels.norm_backward_passes, 1);
  const int n = normed_in_chunks ? x : norm_tensors(last);
  if (own_matrix)
    weight("head", rows, D, WeightKind::table, WeightPlace::tensor, WeightRole::head, true, true);
  if constexpr (Sink::operators) {
    if (gathers()) {
      collective("gather before the head", Part::head, OperatorPass::forward, CollectiveKind::all_gather, Axis::tp,
                 full(D), false);
      collective("scatter of the head's input gradient", Part::head, OperatorPass::input_gradient,
                 CollectiveKind::reduce_scatter, Axis::tp, full(D), false);
    }
    const double V = double(s.model.vocab_size) / z.tp;
    matmul_16("head", Part::head, T, V, D, {});
    // Logits: fused, read and written once each way; else converted to float32, reduced twice, and gradients converted
    // back. Tiled: summed where they are made, and their gradient written over them.
    double made = s.execution.fused_loss ? 6 : 22, undone = s.execution.fused_loss ? 4 : 14;  // bytes of a logit
    if (tiled) made = element, undone = 2 * element;
    memory("cross-entropy", Part::head, OperatorPass::forward, made * T * V, launches(6, 0));
    memory("cross-entropy", Part::head, OperatorPass::input_gradient, undone * T * V, launches(4, 0));
    early = false;
    if (in_chunks) {
      for (int i = first; i < sink.list.size; ++i) {
        sink.list.items[i].launches *= std::ceil(T / chunk);
        sink.list.items[i].kernels *= std::ceil(T / chunk);
      }
      memory("stored gradient", Part::head, OperatorPass::input_gradient, 0, 1);
    }
  }
  if constexpr (!Sink::tensors) return;
  const double collected = gathered(D);
  if (in_chunks) {
    const int loss = tensor("loss", T * 4), gradient = z.training ? tensor("hidden state's gradient", hidden, 0) : none;
    // Tiled: the norm of a chunk with its scales, and their gradients.
    const double normed = tiled ? row(chunk, D) + chunk * wide : 0,
                 back = tiled && z.training ? row(chunk, D) + tile_sums(chunk, D) : 0;
    return record([&] {
      return Tape::Operator{
          .name = "logits and loss in chunks",
          .in = {n},
          .out = {loss, gradient},
          .saved = {gradient},
          .has_weight = false,
          .forward_workspace = chunk * rows * (element < 4 ? element + 4 : element) + collected + normed + back};
    });
  }
  const int logits = tensor("logits", row(T, rows));
  record([&] {
    return Tape::Operator{.name = "logits",
                          .in = {n},
                          .out = {logits},
                          .saved = {n},
                          .has_weight = true,
                          .forward_workspace = collected,
                          .backward_workspace = 2 * collected};
  });
  const int loss = tensor("loss", T * 4);
  const double in_float = T * rows * 4;
  LossKind kind = s.kernels.loss;
  if (kind == LossKind::in_place && !s.execution.fused_loss) kind = LossKind::float32;
  if (kind == LossKind::in_place) {
    // The logits' storage becomes their gradient: kept, and handed on without another allocation.
    record([&] {
      return Tape::Operator{
          .name = "loss", .in = {logits}, .out = {loss}, .saved = {logits}, .gradient_in_place = true};
    });
  } else if (kind == LossKind::float32) {
    const int probs = tensor("logits in float32", in_float, 0);
    record([&] { return Tape::Operator{.name = "loss", .in = {logits}, .out = {loss, probs}, .saved = {probs}}; });
  } else {
    const int copy = tensor("logits in float32", in_float), probs = tensor("probabilities", in_float, 0);
    record([&] { return Tape::Operator{.name = "logits to float32", .in = {logits}, .out = {copy}}; });
    record([&] { return Tape::Operator{.name = "loss", .in = {copy}, .out = {loss, probs}, .saved = {copy, probs}}; });
  }
}

template <class Sink>
void Walk<Sink>::head_streams() {
  segment = Segment::head;
  const double n = s.model.residual_streams;
  if (n > 1)
    weight("mixing of the residual streams before the head", n * n * s.model.hidden + n + 1, 1, WeightKind::vector,
           WeightPlace::whole, WeightRole::norms, false, false);
}

template <class Sink>
void Walk<Sink>::mtp() {
  segment = Segment::attention;
  const double D = s.model.hidden, R = z.split_tokens;
  for (const char* name : {"embedding's norm", "hidden state's norm", "norm before the head"}) norm_weight(name, D);
  norm_operator("norms before the MTP projection", 2 * R * D);
  elementwise("embedding of the next token", Part::head, R * D, 2, 4, 2);
  const int x = tensor("residual stream", split(D)), embedded = tensor("next token's embedding", split(D));
  const int a = norm_tensors(
      {.name = "embedding's norm", .out_name = "normed embedding", .in = embedded, .tokens = R, .width = D});
  const int b = norm_tensors(
      {.name = "hidden state's norm", .out_name = "normed hidden state", .in = x, .tokens = R, .width = D});
  const int both = tensor("embedding and hidden state", 2 * split(D));
  record([&] { return Tape::Operator{.name = "concatenation", .in = {a, b}, .out = {both}}; });
  linear({.name = "projection of both",
          .out_name = "residual stream",
          .in = both,
          .tokens = z.tokens,
          .rows = held(D, z.tp),
          .columns = 2 * D,
          .role = WeightRole::mtp,
          .out_bytes = split(D)});
}

}  // namespace trireme::model
