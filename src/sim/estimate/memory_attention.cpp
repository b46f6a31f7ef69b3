#include <algorithm>

#include "sim/estimate/memory_builder.h"

namespace trireme::sim {

using plan::Recompute;

// Queries, keys and values to the attention's output; `heads` and `kv` of a rank.
int LayerBuilder::core_attention(int q, int k, int v, double heads, double value_dim, int outer) {
  const int in_core = outer != none ? outer : group({{Recompute::core_attention, core}});
  const int out = tape.tensor("attention output", full(heads * value_dim));
  const double workspace = tape.tensors[q].bytes / z.element * kernels.attention_workspace_bytes;
  if (kernels.flash_attention && setting.execution.fused_attention) {
    const int lse = tape.tensor("attention log-sum-exp", z.tokens * heads * 4, 0);
    tape.add({.name = "attention",
              .in = {q, k, v},
              .out = {out, lse},
              .saved = {q, k, v, out, lse},
              .group = in_core,
              .backward_workspace = workspace});
    return exchanged(out, full(heads * value_dim), in_core);
  }
  const double square = z.tokens * z.sequence * heads;
  const int scores = tape.tensor("attention scores", square * z.element);
  const int probs = tape.tensor("attention probabilities", square * z.element);
  tape.add({.name = "attention scores", .in = {q, k}, .out = {scores}, .saved = {q, k}, .group = in_core});
  tape.add({.name = "attention softmax", .in = {scores}, .out = {probs}, .saved = {probs}, .group = in_core});
  int weights = probs;
  if (kernels.dropout) {
    weights = tape.tensor("attention probabilities, dropped out", square * z.element);
    const int mask = tape.tensor("attention dropout mask", square, 0);
    tape.add({.name = "attention dropout", .in = {probs}, .out = {weights, mask}, .saved = {mask}, .group = in_core});
  }
  tape.add(
      {.name = "attention over values", .in = {weights, v}, .out = {out}, .saved = {weights, v}, .group = in_core});
  return exchanged(out, full(heads * value_dim), in_core);
}

// Context parallelism by heads: the output goes back to the ranks of its tokens.
int LayerBuilder::exchanged(int out, double bytes, int group) {
  if (z.cp == 1 || !kernels.context_output_twice) return out;
  const int back = tape.tensor("attention output, by token", bytes);
  tape.add({.name = "exchange of the attention's output", .in = {out}, .out = {back}, .group = group});
  return back;
}

int LayerBuilder::grouped_attention(int n, int outer) {
  const auto& a = spec.attention;
  const double heads = std::max(1.0, static_cast<double>(a.num_heads) / z.tp);
  const double kv = std::max(1.0, static_cast<double>(a.num_kv_heads) / z.tp);
  const double d = a.head_dim, dv = a.value_dim(), gathered = sequence_parallel() ? full(spec.hidden) : 0;
  const int qkv = linear("q, k, v projection", "queries, keys and values", n,
                         full(heads * d + kv * (a.shared_kv ? d : d + dv)), outer, gathered);
  int source = qkv;
  if (a.qk_norm) {
    source = tape.tensor("normed queries and keys", full(heads * d + kv * (d + dv)));
    const int stat = tape.tensor("norm statistics", z.tokens * (heads + kv) * 4, 0);
    tape.add(
        {.name = "norm of queries and keys", .in = {qkv}, .out = {source, stat}, .saved = {qkv, stat}, .group = outer});
  }
  const int q = tape.tensor("queries", full(heads * d)), k = tape.tensor("keys", full(kv * d)),
            v = tape.tensor("values", full(kv * dv));
  tape.add({.name = "rotation",
            .in = {source},
            .out = {q, k, v},
            .group = outer,
            .backward_workspace = kernels.rotated_copies ? full((heads + kv) * d) : 0});
  return core_attention(q, k, v, heads, dv, outer);
}

int LayerBuilder::latent_attention(int n, int outer) {
  const auto& a = spec.attention;
  const double heads = std::max(1.0, static_cast<double>(a.num_heads) / z.tp), d = a.qk_nope_dim + a.qk_rope_dim,
               dv = a.value_dim();
  const int up = outer != none ? outer : group({{Recompute::mla_up_projection, up_projection}});
  int q_source = n;
  if (a.q_lora_rank > 0) {
    const int latent = linear("query down-projection", "query latent", n, split(a.q_lora_rank), outer);
    q_source = norm("query latent norm", "normed query latent", latent, split(a.q_lora_rank), z.split_tokens * 4, up);
  }
  const int kv_latent =
      linear("key-value down-projection", "key-value latent", n, split(a.kv_lora_rank + a.qk_rope_dim), outer);
  const int kv_source = norm("key-value latent norm", "normed key-value latent", kv_latent, split(a.kv_lora_rank),
                             z.split_tokens * 4, up);
  const auto gathered = [&](double width) { return sequence_parallel() ? full(width) : 0; };
  const int q_up = linear("query up-projection", "queries before rotation", q_source, full(heads * d), up,
                          gathered(a.q_lora_rank > 0 ? a.q_lora_rank : spec.hidden));
  const int kv_up = linear("key-value up-projection", "keys and values before rotation", kv_source,
                           full(heads * (a.qk_nope_dim + dv)), up, gathered(a.kv_lora_rank));
  const int q = tape.tensor("queries", full(heads * d)), k = tape.tensor("keys", full(heads * d)),
            v = tape.tensor("values", full(heads * dv));
  tape.add({.name = "rotation of queries", .in = {q_up}, .out = {q}, .group = up});
  tape.add({.name = "rotation of keys", .in = {kv_up}, .out = {k, v}, .group = up});
  return core_attention(q, k, v, heads, dv, outer);
}

// Mamba-2 or a gated delta net: the projection of the input, what the convolution gives, and the mixed output, which
// its norm or gate reads.
int LayerBuilder::linear_mixer(int n, int outer) {
  const auto& m = spec.linear;
  const double inner = static_cast<double>(m.num_heads) * m.head_dim / z.tp;
  const double state = 2.0 * m.num_groups * m.state_dim / z.tp, heads = static_cast<double>(m.num_heads) / z.tp;
  const int in = linear("mixer's input projection", "mixer's projections", n, full(2 * inner + state + heads), outer,
                        sequence_parallel() ? full(spec.hidden) : 0);
  const int conv = tape.tensor("convolved projections", full(inner + state));
  tape.add({.name = "convolution", .in = {in}, .out = {conv}, .saved = {in}, .group = outer});
  const int mixed = tape.tensor("mixed", full(inner));
  tape.add({.name = "scan", .in = {conv}, .out = {mixed}, .saved = {conv}, .group = outer});
  return norm("mixer's norm", "normed mixed", mixed, full(inner), z.tokens * 4, outer);
}

}  // namespace trireme::sim
