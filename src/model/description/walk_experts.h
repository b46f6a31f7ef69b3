// Routed experts: router, permutation, dispatch, shared expert, experts, combine. Included by walk.h.
#pragma once
#include "model/description/walk.h"

namespace trireme::model {

// The router and the permutation of rows to experts, before any message.
template <class Sink>
typename Walk<Sink>::Routed Walk<Sink>::route(int n, double width, int outer) {
  const MoeSpec& m = s.model.moe;
  const double D = s.model.hidden, R = z.split_tokens, experts = m.num_experts,
               score_bytes = std::max(double(s.kernels.router_score_bytes), element), all = R * experts * score_bytes;
  matrix("router", experts, D, WeightPlace::whole, WeightRole::router, /*accumulates=*/false);
  if (m.router.bias) vector("router bias", experts, WeightPlace::whole, WeightRole::router);
  // A float32 matmul in effect, then a handful of small kernels over the scores. Tiled: in the call of the attention
  // block's output; backward in that of the permutation.
  const bool tiled = s.kernels.tiled;
  matmul_16("router", Part::router, R, experts, D, {.forward = 0, .input_gradient = 0});
  memory("scores and selection", Part::router, OperatorPass::forward, s.kernels.router_forward_passes * all,
         launches(15, 0));
  memory("scores and selection", Part::router, OperatorPass::input_gradient, s.kernels.router_backward_passes * all,
         launches(10, 0));
  if (s.kernels.router_loss_passes > 0 && (m.router.aux_loss_coefficient != 0 || m.router.z_loss_coefficient != 0))
    memory("router's losses", Part::router, OperatorPass::forward, s.kernels.router_loss_passes * all, 1);
  const int logits = tensor("router logits", all, tiled ? 0 : all);
  record([&] {
    return Tape::Operator{.name = "router",
                          .in = {n},
                          .out = {logits},
                          .saved = {n},
                          .group = outer,
                          .weight_bytes = full(D) + all,
                          .weight_input = s.kernels.remakes_norm ? stream : n,
                          .kept_scratch = tiled ? all : 0};
  });
  int probs = none;
  if (tiled) {
    probs = tensor("scores of rows by token", z.rows_sent * wide, 0);
    record([&] {
      return Tape::Operator{.name = "router scores", .in = {logits}, .out = {probs}, .saved = {logits}, .group = outer};
    });
  } else {
    const int scores = tensor("router scores", all),
              map = tensor("routing map", s.kernels.routing_maps ? R * experts : 0, 0);
    probs = tensor("router probabilities", all);
    record([&] {
      return Tape::Operator{
          .name = "router scores", .in = {logits}, .out = {scores}, .saved = {scores}, .group = outer};
    });
    record([&] {
      return Tape::Operator{.name = "top-k", .in = {scores}, .out = {probs, map}, .saved = {map}, .group = outer};
    });
  }
  int source = n;
  if (m.latent_dim > 0)
    source = linear({.name = "projection to the experts' width",
                     .out_name = "experts' narrow input",
                     .in = n,
                     .tokens = R,
                     .rows = width,
                     .columns = D,
                     .part = Part::experts,
                     .role = WeightRole::shared_experts,
                     .place = WeightPlace::whole,
                     .group = outer});
  // HALO packs rows by the node that they go to; a gather between nodes leaves every node with all of its counterparts'
  // tokens, whose sums are scattered in the combine. A deduplicating dispatch takes tokens as they are.
  if (z.exchange == RowExchange::packed)
    elementwise("rows packed by node", Part::permute, z.rows_sent * width, 2, 2, 2);
  if (s.kernels.permutes_by_token)
    elementwise("permutation", Part::permute, (R + z.rows_sent) * width, 1, 1, 4, {.forward = 2, .input_gradient = 1});
  else if (z.exchange < RowExchange::tokens)
    elementwise("permutation", Part::permute, z.rows_sent * width, 2, 2, 4);
  const int permute = outer != none ? outer : group({{Recompute::permute, permutation}});
  const int rows = tensor("permuted rows", row(z.rows_sent, width)),
            row_scores = tensor("permuted scores", z.rows_sent * wide),
            places = tensor(
                "places of rows",
                (s.kernels.routing_maps ? R * (2 * experts + 1) * 4 : 0) + z.rows_sent * s.kernels.routing_row_bytes,
                0);
  record([&] {
    return Tape::Operator{.name = "permute",
                          .in = {source, probs},
                          .out = {rows, row_scores, places},
                          .saved = {places},
                          .group = permute};
  });
  return {rows, row_scores};
}

// Its compute needs no message, and can run while rows travel.
template <class Sink>
int Walk<Sink>::shared_expert(int n, int outer) {
  const MoeSpec& m = s.model.moe;
  tensor_in(s.model.hidden);
  apart = true;
  const int out = pair({"shared expert's first matmul", "shared expert's gated", "shared expert's second matmul",
                        "shared expert's output"},
                       {.tokens = z.tokens,
                        .width = double(s.model.hidden),
                        .ffn = held(m.shared_ffn, z.tp),
                        .part = Part::experts,
                        .role = WeightRole::shared_experts},
                       n, outer, shared_activation, none);
  apart = false;
  tensor_out();
  return out;
}

template <class Sink>
int Walk<Sink>::moe(int n, int outer) {
  const MoeSpec& m = s.model.moe;
  const double width = m.latent_dim > 0 ? m.latent_dim : s.model.hidden, experts = std::max(1.0, held(m.num_experts, z.ep));
  const bool exchanges = z.ep > 1 || z.etp > 1, copies = z.exchange >= RowExchange::tokens,
             sorts = exchanges && experts > 1 && s.kernels.sorts_received_rows;
  // Rows collected from, or before they are reduced to, the ranks that split an expert.
  const double over_etp = z.etp > 1 ? row(z.rows / z.etp, width) : 0;
  // Patterns in two steps hold rows between them: HALO what it packs and what it hands out, a gather between nodes the
  // tokens of other nodes (no more than the rows, or the pattern would not pay) and the rows that its node keeps.
  const bool two_steps = z.exchange == RowExchange::packed || z.exchange == RowExchange::staged;
  const double between = two_steps ? 2 * row(z.rows_sent, width) : 0;

  const Routed sent = route(n, width, outer);
  // Before the dispatch on the tape: these kernels run it before the message is issued.
  segment = Segment::shared;
  int shared = none;
  if (m.shared_ffn > 0) shared = shared_expert(n, outer);
  if (m.shared_gate)
    matrix("shared expert's gate", 1, s.model.hidden, WeightPlace::whole, WeightRole::shared_experts, false);

  if (z.ep > 1) exchange_messages(width);
  if (z.etp > 1) expert_tensor_messages(width);
  Routed received = sent;
  segment = Segment::dispatch;
  if (exchanges) {
    received = {tensor("received rows", row(z.rows, width)), tensor("received scores", z.rows * wide)};
    record([&] {
      return Tape::Operator{.name = "dispatch",
                            .in = {sent.rows, sent.scores},
                            .out = {received.rows, received.scores},
                            .group = outer,
                            .is_message = true,
                            .forward_workspace = over_etp + between,
                            .backward_workspace = over_etp + between};
    });
  }

  segment = Segment::experts;
  const bool sorting_takes_time = copies || (experts > 1 && z.ep > 1 && s.kernels.sorts_received_rows);
  if (sorting_takes_time) elementwise("rows sorted by expert", Part::permute, z.rows * width, 2, 2, 2);
  Routed input = received;
  if (sorts) {
    const int sort = outer != none ? outer : group({{Recompute::permute, received_permutation}});
    input = {tensor("rows by expert", row(z.rows, width)), tensor("scores by expert", z.rows * wide)};
    record([&] {
      return Tape::Operator{.name = "sort rows by expert",
                            .in = {received.rows, received.scores},
                            .out = {input.rows, input.scores},
                            .group = sort};
    });
  }
  int y = pair({"experts' first matmul", "experts' gated", "experts' second matmul", "experts' output"},
               {.tokens = z.rows,
                .width = width,
                .ffn = held(m.expert_ffn, z.etp),
                .groups = experts,
                .part = Part::experts,
                .role = WeightRole::routed_experts,
                .place = WeightPlace::expert,
                .bias = m.expert_bias},
               input.rows, outer, activation, s.kernels.scores_on_output ? none : input.scores);
  if (sorting_takes_time) elementwise("rows sorted back", Part::permute, z.rows * width, 2, 2, 2);
  if (sorts) {
    const int back = tensor("rows by sender", row(z.rows, width));
    record([&] {
      return Tape::Operator{.name = "sort rows by sender",
                            .in = {y},
                            .out = {back},
                            .saved = {s.kernels.unsorting_keeps_rows ? y : none},
                            .group = outer};
    });
    y = back;
  }

  segment = Segment::combine;
  const int to_combine = y;
  if (exchanges) {
    y = tensor("combined rows", row(z.rows_sent, width));
    record([&] {
      return Tape::Operator{.name = "combine",
                            .in = {to_combine},
                            .out = {y},
                            .group = outer,
                            .is_message = true,
                            .forward_workspace = over_etp + between,
                            .backward_workspace = over_etp + between};
    });
  }
  const bool at_once = s.kernels.permutes_by_token && m.latent_dim == 0;
  if (s.kernels.permutes_by_token) {
    // Rows, the residual stream and the shared expert's output are read, the sum is written; their gradients are its
    // own.
    const double others = (m.shared_ffn > 0 ? 3 : 2) * z.split_tokens;
    memory("sum of the experts' rows", Part::permute, OperatorPass::forward, row(z.rows_sent + others, width),
           launches(4, 1));
    memory("sum of the experts' rows", Part::permute, OperatorPass::input_gradient,
           row(z.rows_sent + z.split_tokens, width), launches(4, 1));
  } else if (!copies) {
    elementwise("unpermutation and weighting", Part::permute, z.rows_sent * width, 2, 3, 4);
  }
  int out = tensor("routed output", at_once ? 0 : split(width));
  record([&] {
    Tape::Operator unpermute{.name = "unpermute", .in = {y}, .out = {out}, .group = outer};
    if (s.kernels.scores_on_output) unpermute.in = {y, sent.scores}, unpermute.saved = {y, sent.scores};
    if (s.kernels.exchanged_rows_stay && exchanges) unpermute.holds = {sent.rows, received.rows, to_combine};
    return unpermute;
  });
  if (m.latent_dim > 0)
    out = linear({.name = "projection from the experts' width",
                  .out_name = "routed output",
                  .in = out,
                  .tokens = z.split_tokens,
                  .rows = double(s.model.hidden),
                  .columns = width,
                  .part = Part::experts,
                  .role = WeightRole::shared_experts,
                  .place = WeightPlace::whole,
                  .group = outer});
  return shared == none ? out : sum("shared expert's sum", out, shared, outer, at_once ? 0 : split(s.model.hidden));
}

template <class Sink>
void Walk<Sink>::exchange_messages(double width) {
  // Whole tokens are gathered as they are, and sums scattered; what else is sent to experts may be quantised.
  const bool gathers = z.exchange == RowExchange::gathered;
  const double elements = z.rows_sent * width, back = elements * element,
               out = gathers ? back : elements * s.precision.dispatch_bytes;
  const auto message = [&](const char* what, Segment at, OperatorPass pass, double bytes) {
    segment = at;
    collective(what, Part::exchange, pass, CollectiveKind::exchange, Axis::ep, bytes, z.experts_beside);
  };
  message(gathers ? "gather of tokens" : "dispatch", Segment::dispatch, OperatorPass::forward, out);
  message(gathers ? "scatter of sums" : "combine", Segment::combine, OperatorPass::forward, back);
  message(gathers ? "gather of tokens" : "dispatch's gradient", Segment::dispatch, OperatorPass::input_gradient, back);
  message(gathers ? "scatter of sums" : "combine's gradient", Segment::combine, OperatorPass::input_gradient, back);
}

template <class Sink>
void Walk<Sink>::expert_tensor_messages(double width) {
  const double bytes = row(z.rows, width);
  const auto message = [&](const char* what, Segment at, OperatorPass pass, CollectiveKind kind) {
    segment = at;
    collective(what, Part::exchange, pass, kind, Axis::etp, bytes, false);
  };
  message("gather of rows", Segment::dispatch, OperatorPass::forward, CollectiveKind::all_gather);
  message("scatter of rows", Segment::combine, OperatorPass::forward, CollectiveKind::reduce_scatter);
  message("gather of row gradients", Segment::combine, OperatorPass::input_gradient, CollectiveKind::all_gather);
  message("scatter of row gradients", Segment::dispatch, OperatorPass::input_gradient, CollectiveKind::reduce_scatter);
}

}  // namespace trireme::model
