#include <array>

#include "sim/estimate/memory_builder.h"

namespace trireme::sim {

using plan::Recompute;

// A gated (or plain) pair of matmuls around an activation: up to the second matmul's input. `width` of a rank;
// `over_tensor_ranks`: tensor ranks share the tokens, and collect them with sequence parallelism.
int LayerBuilder::feed_forward(int n, double tokens, double width, bool over_tensor_ranks, int outer, Group own,
                               const char* what_in, const char* what_gated, int scores) {
  const bool gather = over_tensor_ranks && sequence_parallel();
  const int in = linear(what_in, "feed-forward's first outputs", n, row(tokens, spec.gated ? 2 * width : width), outer,
                        gather ? full(spec.hidden) : 0);
  const int act = outer != none ? outer : group({{Recompute::activation, own}});
  const int out = tape.tensor(what_gated, row(tokens, width));
  const int half = !kernels.fused_gate && spec.gated ? tape.tensor("activated half", row(tokens, width), 0) : none;
  tape.add({.name = "activation", .in = {in, scores}, .out = {out, half}, .saved = {in, scores, half}, .group = act});
  return out;
}

int LayerBuilder::dense(int n, double width, int outer, Group own, bool shared) {
  const int gated = feed_forward(n, z.tokens, width / z.tp, true, outer, own,
                                 shared ? "shared expert's first matmul" : "first matmul",
                                 shared ? "shared expert's gated" : "gated", none);
  return linear(shared ? "shared expert's second matmul" : "second matmul",
                shared ? "shared expert's output" : "feed-forward's output", gated, split(spec.hidden), outer, 0,
                z.tp > 1 ? full(spec.hidden) : 0);
}

// The router and the permutation of rows to experts, before any message.
LayerBuilder::Routed LayerBuilder::route(int n, double width, int outer) {
  const double s = z.split_tokens, experts = spec.moe.num_experts, all = s * experts * kernels.router_score_bytes;
  const int logits = tape.tensor("router logits", all), scores = tape.tensor("router scores", all),
            probs = tape.tensor("router probabilities", all), map = tape.tensor("routing map", s * experts, 0);
  tape.add({.name = "router", .in = {n}, .out = {logits}, .saved = {n}, .group = outer});
  tape.add({.name = "router scores", .in = {logits}, .out = {scores}, .saved = {scores}, .group = outer});
  tape.add({.name = "top-k", .in = {scores}, .out = {probs, map}, .saved = {map}, .group = outer});
  int source = n;
  if (spec.moe.latent_dim > 0)
    source = linear("projection to the experts' width", "experts' narrow input", n, split(width), outer);

  const int permute = outer != none ? outer : group({{Recompute::permute, permutation}});
  const int rows = tape.tensor("permuted rows", row(z.rows_sent, width)),
            row_scores = tape.tensor("permuted scores", z.rows_sent * 4),
            places = tape.tensor("places of rows", s * (2 * experts + 1) * 4, 0);
  tape.add({.name = "permute",
            .in = {source, probs},
            .out = {rows, row_scores, places},
            .saved = {places},
            .group = permute});
  return {rows, row_scores};
}

int LayerBuilder::moe(int n, int outer) {
  const auto& m = spec.moe;
  const double width = m.latent_dim > 0 ? m.latent_dim : spec.hidden;
  const bool exchanges = z.ep > 1 || z.etp > 1, sorts = exchanges && z.local_experts > 1 && kernels.sorts_received_rows;
  // Rows collected from, or before they are reduced to, the ranks that split an expert.
  const double over_etp = z.etp > 1 ? row(z.rows / z.etp, width) : 0;

  // Patterns in two steps hold rows between them: HALO what it packs and what it hands out, a gather between nodes the
  // tokens of other nodes (no more than the rows, or the pattern would not pay) and the rows that its node keeps.
  const std::string& pattern = setting.layout.all_to_all;
  const double between = z.ep > 1 && (pattern == "halo" || pattern == "allgather_a2a") ? 2 * row(z.rows_sent, width) : 0;

  const Routed sent = route(n, width, outer);
  int shared = none;
  if (m.shared_ffn > 0) shared = dense(n, m.shared_ffn, outer, shared_activation, true);

  Routed received = sent;
  if (exchanges) {
    received = {tape.tensor("received rows", row(z.rows, width)), tape.tensor("received scores", z.rows * 4)};
    tape.add({.name = "dispatch",
              .in = {sent.rows, sent.scores},
              .out = {received.rows, received.scores},
              .group = outer,
              .forward_workspace = over_etp + between,
              .backward_workspace = over_etp + between});
  }
  Routed input = received;
  if (sorts) {
    const int sort = outer != none ? outer : group({{Recompute::permute, received_permutation}});
    input = {tape.tensor("rows by expert", row(z.rows, width)), tape.tensor("scores by expert", z.rows * 4)};
    tape.add({.name = "sort rows by expert",
              .in = {received.rows, received.scores},
              .out = {input.rows, input.scores},
              .group = sort});
  }
  const int gated =
      feed_forward(input.rows, z.rows, static_cast<double>(m.expert_ffn) / z.etp, false, outer, activation,
                   "experts' first matmul", "experts' gated", kernels.scores_on_output ? none : input.scores);
  int y = linear("experts' second matmul", "experts' output", gated, row(z.rows, width), outer);
  if (sorts) {
    const int back = tape.tensor("rows by sender", row(z.rows, width));
    tape.add({.name = "sort rows by sender",
              .in = {y},
              .out = {back},
              .saved = {kernels.unsorting_keeps_rows ? y : none},
              .group = outer});
    y = back;
  }
  const int to_combine = y;
  if (exchanges) {
    y = tape.tensor("combined rows", row(z.rows_sent, width));
    tape.add({.name = "combine",
              .in = {to_combine},
              .out = {y},
              .group = outer,
              .forward_workspace = over_etp + between,
              .backward_workspace = over_etp + between});
  }
  int out = tape.tensor("routed output", split(width));
  Tape::Operator unpermute{.name = "unpermute", .in = {y}, .out = {out}, .group = outer};
  if (kernels.scores_on_output) unpermute.in = {y, sent.scores}, unpermute.saved = {y, sent.scores};
  if (kernels.exchanged_rows_stay && exchanges) unpermute.holds = {sent.rows, received.rows, to_combine};
  tape.add(unpermute);
  if (m.latent_dim > 0)
    out = linear("projection from the experts' width", "routed output", out, split(spec.hidden), outer);
  return shared == none ? out : residual("shared expert's sum", out, shared, outer);
}

}  // namespace trireme::sim
