#include "sim/estimate/memory_layers.h"

#include <algorithm>
#include <cmath>

namespace trireme::sim {

namespace {

using model::AttentionKind;
using plan::Recompute;
using platform::MemoryProfile;
constexpr int none = Tape::none;

// Groups of recomputation by their place in a layer.
enum Group {
  whole_layer,
  attention_block,
  core,
  up_projection,
  first_norm,
  second_norm,
  activation,
  shared_activation,
  permutation,
  received_permutation,
  moe_block,
  mlp_block
};

double stored_input_bytes(const Precision& precision) {
  switch (precision.compute) {
    case ComputeFormat::float8:
      return 1;
    case ComputeFormat::mxfp8:
      return 1 + 1.0 / 32;  // a scale of a byte for 32 elements
    case ComputeFormat::nvfp4:
      return 0.5 + 1.0 / 16;
    default:
      return precision.activation_bytes;
  }
}

// A layer under construction. Legend: t tokens, s tokens of the residual stream, h hidden, e bytes of an element.
struct Layer {
  const Setting& setting;
  const model::ModelSpec& spec;
  const MemoryProfile& profile;
  const MemorySizes& z;
  plan::RecomputeSet recompute;
  Tape tape;

  Layer(const Setting& st, const MemoryProfile& p, const MemorySizes& sizes, plan::RecomputeSet r)
      : setting(st), spec(st.model), profile(p), z(sizes), recompute(r) {
    for (Group g :
         {up_projection, first_norm, second_norm, activation, shared_activation, permutation, received_permutation})
      tape.groups[g] = Rerun::output;
  }

  double full(double width) const { return z.tokens * width * z.element; }
  double split(double width) const { return z.split_tokens * width * z.element; }
  double row(double count, double width) const { return count * width * z.element; }
  bool sequence_parallel() const { return z.tp > 1 && z.split_tokens < z.tokens; }

  struct Part {
    Recompute part;
    Group group;
  };
  int group(std::initializer_list<Part> parts) const {
    if (recompute.has(Recompute::layer)) return whole_layer;
    for (const Part& p : parts)
      if (recompute.has(p.part)) return p.group;
    return none;
  }

  // A matmul whose weight's gradient needs its input. `gathered`: bytes of the input collected from tensor ranks, and
  // of its gradient before it is scattered to them; `partial`: bytes of the output before it is reduced to them.
  int linear(const char* name, const char* out_name, int in, double out_bytes, int group, double gathered = 0,
             double partial = 0) {
    const int out = tape.tensor(out_name, out_bytes);
    int keeps = in, copy = none;
    if (z.quantised) {
      copy = tape.tensor("quantised input", tape.tensors[in].bytes / z.element * z.kept_input, 0);
      keeps = copy;
    }
    const double gradient_copies = z.quantised ? 2 * std::max(out_bytes, partial) / z.element * z.kept_input : 0;
    tape.add({.name = name,
              .in = {in, none, none, none},
              .out = {out, copy, none, none},
              .saved = {keeps, none, none, none, none, none},
              .group = group,
              .has_weight = true,
              .forward_workspace = gathered + partial,
              .backward_workspace = 2 * gathered + partial + gradient_copies});
    return out;
  }

  int norm(const char* name, const char* out_name, int in, double bytes, double statistics, int group) {
    const int out = tape.tensor(out_name, bytes);
    const int stat = profile.norm_statistics ? tape.tensor("norm statistics", statistics, 0) : none;
    tape.add({.name = name,
              .in = {in, none, none, none},
              .out = {out, stat, none, none},
              .saved = {in, stat, none, none, none, none},
              .group = group});
    return out;
  }

  int residual(const char* name, int branch, int stream, int group) {
    const int out = tape.tensor("residual stream", split(spec.hidden));
    tape.add({.name = name,
              .in = {branch, stream, none, none},
              .out = {out, none, none, none},
              .group = group,
              .passes_gradient = true});
    return out;
  }

  int dropout(const char* name, int in, int group) {
    if (!profile.dropout) return in;
    const int out = tape.tensor("dropped out", split(spec.hidden));
    const int mask = tape.tensor("dropout mask", z.split_tokens * spec.hidden, 0);
    tape.add({.name = name,
              .in = {in, none, none, none},
              .out = {out, mask, none, none},
              .saved = {mask, none, none, none, none, none},
              .group = group});
    return out;
  }

  // Queries, keys and values to the attention's output; `heads` and `kv` of a rank.
  int core_attention(int q, int k, int v, double heads, double value_dim, int outer) {
    const int in_core = outer != none ? outer : group({{Recompute::core_attention, core}});
    const int out = tape.tensor("attention output", full(heads * value_dim));
    const double workspace = tape.tensors[q].bytes / z.element * profile.attention_workspace_bytes;
    if (profile.flash_attention) {
      const int lse = tape.tensor("attention log-sum-exp", z.tokens * heads * 4, 0);
      tape.add({.name = "attention",
                .in = {q, k, v, none},
                .out = {out, lse, none, none},
                .saved = {q, k, v, out, lse, none},
                .group = in_core,
                .backward_workspace = workspace});
      return exchanged(out, full(heads * value_dim), in_core);
    }
    const double square = z.tokens * z.sequence * heads;
    const int scores = tape.tensor("attention scores", square * z.element);
    const int probs = tape.tensor("attention probabilities", square * z.element);
    tape.add({.name = "attention scores",
              .in = {q, k, none, none},
              .out = {scores, none, none, none},
              .saved = {q, k, none, none, none, none},
              .group = in_core});
    tape.add({.name = "attention softmax",
              .in = {scores, none, none, none},
              .out = {probs, none, none, none},
              .saved = {probs, none, none, none, none, none},
              .group = in_core});
    int weights = probs;
    if (profile.dropout) {
      weights = tape.tensor("attention probabilities, dropped out", square * z.element);
      const int mask = tape.tensor("attention dropout mask", square, 0);
      tape.add({.name = "attention dropout",
                .in = {probs, none, none, none},
                .out = {weights, mask, none, none},
                .saved = {mask, none, none, none, none, none},
                .group = in_core});
    }
    tape.add({.name = "attention over values",
              .in = {weights, v, none, none},
              .out = {out, none, none, none},
              .saved = {weights, v, none, none, none, none},
              .group = in_core});
    return exchanged(out, full(heads * value_dim), in_core);
  }

  // Context parallelism by heads: the output goes back to the ranks of its tokens.
  int exchanged(int out, double bytes, int group) {
    if (z.cp == 1 || !profile.context_output_twice) return out;
    const int back = tape.tensor("attention output, by token", bytes);
    tape.add({.name = "exchange of the attention's output",
              .in = {out, none, none, none},
              .out = {back, none, none, none},
              .group = group});
    return back;
  }

  int grouped_attention(int n, int outer) {
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
      tape.add({.name = "norm of queries and keys",
                .in = {qkv, none, none, none},
                .out = {source, stat, none, none},
                .saved = {qkv, stat, none, none, none, none},
                .group = outer});
    }
    const int q = tape.tensor("queries", full(heads * d)), k = tape.tensor("keys", full(kv * d)),
              v = tape.tensor("values", full(kv * dv));
    tape.add({.name = "rotation",
              .in = {source, none, none, none},
              .out = {q, k, v, none},
              .group = outer,
              .backward_workspace = profile.rotated_copies ? full((heads + kv) * d) : 0});
    return core_attention(q, k, v, heads, dv, outer);
  }

  int latent_attention(int n, int outer) {
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
    tape.add(
        {.name = "rotation of queries", .in = {q_up, none, none, none}, .out = {q, none, none, none}, .group = up});
    tape.add({.name = "rotation of keys", .in = {kv_up, none, none, none}, .out = {k, v, none, none}, .group = up});
    return core_attention(q, k, v, heads, dv, outer);
  }

  // Mamba-2 or a gated delta net: the projection of the input, what the convolution gives, and the mixed output, which
  // its norm or gate reads.
  int linear_mixer(int n, int outer) {
    const auto& m = spec.linear;
    const double inner = static_cast<double>(m.num_heads) * m.head_dim / z.tp;
    const double state = 2.0 * m.num_groups * m.state_dim / z.tp, heads = static_cast<double>(m.num_heads) / z.tp;
    const int in = linear("mixer's input projection", "mixer's projections", n, full(2 * inner + state + heads), outer,
                          sequence_parallel() ? full(spec.hidden) : 0);
    const int conv = tape.tensor("convolved projections", full(inner + state));
    tape.add({.name = "convolution",
              .in = {in, none, none, none},
              .out = {conv, none, none, none},
              .saved = {in, none, none, none, none, none},
              .group = outer});
    const int mixed = tape.tensor("mixed", full(inner));
    tape.add({.name = "scan",
              .in = {conv, none, none, none},
              .out = {mixed, none, none, none},
              .saved = {conv, none, none, none, none, none},
              .group = outer});
    return norm("mixer's norm", "normed mixed", mixed, full(inner), z.tokens * 4, outer);
  }

  // A gated (or plain) pair of matmuls around an activation. `width` of a rank; `sums`: its output is reduced over tp.
  int feed_forward(int n, double tokens, double width, bool over_tensor_ranks, int outer, Group own,
                   const char* what_in, const char* what_gated, int scores = none) {
    const bool gather = over_tensor_ranks && sequence_parallel();
    const int in = linear(what_in, "feed-forward's first outputs", n, row(tokens, spec.gated ? 2 * width : width),
                          outer, gather ? full(spec.hidden) : 0);
    const int act = outer != none ? outer : group({{Recompute::activation, own}});
    const int out = tape.tensor(what_gated, row(tokens, width));
    const int half = !profile.fused_gate && spec.gated ? tape.tensor("activated half", row(tokens, width), 0) : none;
    tape.add({.name = "activation",
              .in = {in, scores, none, none},
              .out = {out, half, none, none},
              .saved = {in, scores, half, none, none, none},
              .group = act});
    return out;
  }

  int dense(int n, double width, int outer, Group own, bool shared) {
    const int g = feed_forward(n, z.tokens, width / z.tp, true, outer, own,
                               shared ? "shared expert's first matmul" : "first matmul",
                               shared ? "shared expert's gated" : "gated");
    const double partial = z.tp > 1 ? full(spec.hidden) : 0;
    return linear(shared ? "shared expert's second matmul" : "second matmul",
                  shared ? "shared expert's output" : "feed-forward's output", g, split(spec.hidden), outer, 0,
                  partial);
  }

  int moe(int n, int outer) {
    const auto& m = spec.moe;
    const double width = m.latent_dim > 0 ? m.latent_dim : spec.hidden, score = profile.router_score_bytes;
    const double E = m.num_experts, s = z.split_tokens;
    int source = n;
    const int logits = tape.tensor("router logits", s * E * score),
              scores = tape.tensor("router scores", s * E * score),
              probs = tape.tensor("router probabilities", s * E * score), map = tape.tensor("routing map", s * E, 0);
    tape.add({.name = "router",
              .in = {n, none, none, none},
              .out = {logits, none, none, none},
              .saved = {n, none, none, none, none, none},
              .group = outer});
    tape.add({.name = "router scores",
              .in = {logits, none, none, none},
              .out = {scores, none, none, none},
              .saved = {scores, none, none, none, none, none},
              .group = outer});
    tape.add({.name = "top-k",
              .in = {scores, none, none, none},
              .out = {probs, map, none, none},
              .saved = {map, none, none, none, none, none},
              .group = outer});
    if (m.latent_dim > 0)
      source = linear("projection to the experts' width", "experts' narrow input", n, split(width), outer);
    int shared = none;
    if (m.shared_ffn > 0) shared = dense(n, m.shared_ffn, outer, shared_activation, true);

    const int permute = outer != none ? outer : group({{Recompute::permute, permutation}});
    const int sent = tape.tensor("permuted rows", row(z.rows_sent, width)),
              sent_scores = tape.tensor("permuted scores", z.rows_sent * 4),
              places = tape.tensor("places of rows", s * (2 * E + 1) * 4, 0);
    tape.add({.name = "permute",
              .in = {source, probs, none, none},
              .out = {sent, sent_scores, places, none},
              .saved = {places, none, none, none, none, none},
              .group = permute});
    int rows = sent, row_scores = sent_scores;
    if (z.ep > 1 || z.etp > 1) {
      rows = tape.tensor("received rows", row(z.rows, width));
      row_scores = tape.tensor("received scores", z.rows * 4);
      tape.add({.name = "dispatch",
                .in = {sent, sent_scores, none, none},
                .out = {rows, row_scores, none, none},
                .group = outer,
                .forward_workspace = z.etp > 1 ? row(z.rows / z.etp, width) : 0,
                .backward_workspace = z.etp > 1 ? row(z.rows / z.etp, width) : 0});
    }
    const int received = rows;
    if (z.local_experts > 1 && profile.sorts_received_rows && (z.ep > 1 || z.etp > 1)) {
      const int sort = outer != none ? outer : group({{Recompute::permute, received_permutation}});
      const int sorted = tape.tensor("rows by expert", row(z.rows, width)),
                sorted_scores = tape.tensor("scores by expert", z.rows * 4);
      tape.add({.name = "sort rows by expert",
                .in = {rows, row_scores, none, none},
                .out = {sorted, sorted_scores, none, none},
                .group = sort});
      rows = sorted, row_scores = sorted_scores;
    }
    const int g = feed_forward(rows, z.rows, static_cast<double>(m.expert_ffn) / z.etp, false, outer, activation,
                               "experts' first matmul", "experts' gated", profile.scores_on_output ? none : row_scores);
    int y = linear("experts' second matmul", "experts' output", g, row(z.rows, width), outer);
    if (z.local_experts > 1 && profile.sorts_received_rows && (z.ep > 1 || z.etp > 1)) {
      const int back = tape.tensor("rows by sender", row(z.rows, width));
      tape.add({.name = "sort rows by sender",
                .in = {y, none, none, none},
                .out = {back, none, none, none},
                .group = outer});
      y = back;
    }
    const int to_combine = y;
    if (z.ep > 1 || z.etp > 1) {
      const int back = tape.tensor("combined rows", row(z.rows_sent, width));
      tape.add({.name = "combine",
                .in = {y, none, none, none},
                .out = {back, none, none, none},
                .group = outer,
                .forward_workspace = z.etp > 1 ? row(z.rows / z.etp, width) : 0,
                .backward_workspace = z.etp > 1 ? row(z.rows / z.etp, width) : 0});
      y = back;
    }
    const bool stay = profile.exchanged_rows_stay && (z.ep > 1 || z.etp > 1);
    int out = tape.tensor("routed output", split(width));
    tape.add({.name = "unpermute",
              .in = {y, profile.scores_on_output ? sent_scores : none, none, none},
              .out = {out, none, none, none},
              .saved = {places, profile.scores_on_output ? y : none, profile.scores_on_output ? sent_scores : none,
                        none, none, none},
              .holds = stay ? std::array{sent, received, to_combine} : std::array{none, none, none},
              .group = outer});
    if (m.latent_dim > 0)
      out = linear("projection from the experts' width", "routed output", out, split(spec.hidden), outer);
    return shared == none ? out : residual("shared expert's sum", out, shared, outer);
  }
};

}  // namespace

MemorySizes memory_sizes(const Setting& setting, double load_factor) {
  const auto& layout = setting.layout;
  const auto& m = setting.model.moe;
  MemorySizes z;
  z.tp = layout.tp, z.cp = layout.cp, z.ep = layout.ep, z.etp = layout.etp;
  z.sequence = static_cast<double>(setting.batch.sequence_length);
  z.tokens = static_cast<double>(setting.batch.micro_batch) * z.sequence / layout.cp;
  z.split_tokens = layout.sequence_parallel ? z.tokens / layout.tp : z.tokens;
  z.element = setting.precision.activation_bytes;
  z.kept_input = stored_input_bytes(setting.precision);
  z.quantised = z.kept_input < z.element;
  if (m.num_experts > 0) {
    z.local_experts = std::max(1, m.num_experts / layout.ep);
    z.rows_sent = z.split_tokens * m.router.top_k;
    z.rows = z.rows_sent * layout.etp * load_factor;
  }
  return z;
}

Tape layer_tape(const Setting& setting, const MemoryProfile& profile, const MemorySizes& sizes, int layer,
                plan::RecomputeSet recompute) {
  Layer l(setting, profile, sizes, recompute);
  const auto& spec = setting.model;
  const double hidden = l.split(spec.hidden), statistics = sizes.split_tokens * 4;
  int x = l.tape.tensor("residual stream", hidden);
  const model::Mixer mixer = spec.mixer(layer);
  if (mixer != model::Mixer::none) {
    const int outer = l.group({{Recompute::attention, attention_block}});
    const int n = l.norm("attention norm", "normed input", x, hidden, statistics,
                         outer != none ? outer : l.group({{Recompute::norm, first_norm}}));
    int out = none;
    if (mixer == model::Mixer::linear)
      out = l.linear_mixer(n, outer);
    else if (spec.attention.kind == AttentionKind::latent)
      out = l.latent_attention(n, outer);
    else
      out = l.grouped_attention(n, outer);
    out = l.linear("output projection", "attention block's output", out, hidden, outer, 0,
                   sizes.tp > 1 ? l.full(spec.hidden) : 0);
    if (spec.sandwich_norms) out = l.norm("norm behind attention", "normed output", out, hidden, statistics, outer);
    out = l.dropout("dropout behind attention", out, outer);
    x = l.residual("sum behind attention", out, x, l.group({}));
  }
  const model::FeedForward kind = spec.feed_forward(layer);
  if (kind != model::FeedForward::none) {
    const bool moe = kind == model::FeedForward::moe;
    const int outer = moe ? l.group({{Recompute::moe, moe_block}}) : l.group({{Recompute::mlp, mlp_block}});
    const int n = l.norm("feed-forward's norm", "feed-forward's input", x, hidden, statistics,
                         l.group({{Recompute::norm, second_norm}}));
    int out = moe ? l.moe(n, outer) : l.dense(n, spec.dense_ffn, outer, activation, false);
    if (spec.sandwich_norms)
      out = l.norm("norm behind the feed-forward", "normed output", out, hidden, statistics, l.group({}));
    out = l.dropout("dropout behind the feed-forward", out, l.group({}));
    x = l.residual("sum behind the feed-forward", out, x, l.group({}));
  }
  return l.tape;
}

double vocabulary_rows(const Setting& setting, const MemoryProfile& profile) {
  const double multiple = static_cast<double>(profile.vocabulary_multiple) * setting.layout.tp;
  const double rows = static_cast<double>(setting.model.vocab_size + profile.vocabulary_extra);
  return std::ceil(rows / multiple) * multiple / setting.layout.tp;
}

Tape head_tape(const Setting& setting, const MemoryProfile& profile, const MemorySizes& sizes) {
  Layer l(setting, profile, sizes, {});
  const auto& spec = setting.model;
  const double hidden = l.split(spec.hidden), rows = vocabulary_rows(setting, profile);
  const int x = l.tape.tensor("residual stream", hidden);
  const int n = l.norm("final norm", "normed hidden state", x, hidden, sizes.split_tokens * 4, none);
  const double gathered = l.sequence_parallel() ? l.full(spec.hidden) : 0;
  const double loss_bytes = sizes.tokens * 4;
  if (profile.loss == platform::LossKind::chunked) {
    const double chunk = std::min(static_cast<double>(profile.loss_chunk_tokens), sizes.tokens);
    const int loss = l.tape.tensor("loss", loss_bytes), gradient = l.tape.tensor("hidden state's gradient", hidden, 0);
    l.tape.add({.name = "logits and loss in chunks",
                .in = {n, none, none, none},
                .out = {loss, gradient, none, none},
                .saved = {gradient, none, none, none, none, none},
                .has_weight = false,
                .forward_workspace = chunk * rows * (sizes.element + 4) + gathered});
    return l.tape;
  }
  const double logits_bytes = sizes.tokens * rows * sizes.element;
  const int logits = l.tape.tensor("logits", logits_bytes);
  l.tape.add({.name = "logits",
              .in = {n, none, none, none},
              .out = {logits, none, none, none},
              .saved = {n, none, none, none, none, none},
              .has_weight = true,
              .forward_workspace = gathered,
              .backward_workspace = 2 * gathered});
  const int loss = l.tape.tensor("loss", loss_bytes);
  const double wide = sizes.tokens * rows * 4;
  switch (profile.loss) {
    case platform::LossKind::in_place:
      // The logits' storage becomes their gradient: kept, and handed on without another allocation.
      l.tape.add({.name = "loss",
                  .in = {logits, none, none, none},
                  .out = {loss, none, none, none},
                  .saved = {logits, none, none, none, none, none},
                  .gradient_in_place = true});
      break;
    case platform::LossKind::float32: {
      const int probs = l.tape.tensor("logits in float32", wide, 0);
      l.tape.add({.name = "loss",
                  .in = {logits, none, none, none},
                  .out = {loss, probs, none, none},
                  .saved = {probs, none, none, none, none, none}});
      break;
    }
    default: {
      const int copy = l.tape.tensor("logits in float32", wide), probs = l.tape.tensor("probabilities", wide, 0);
      l.tape.add({.name = "logits to float32", .in = {logits, none, none, none}, .out = {copy, none, none, none}});
      l.tape.add({.name = "loss",
                  .in = {copy, none, none, none},
                  .out = {loss, probs, none, none},
                  .saved = {copy, probs, none, none, none, none}});
    }
  }
  return l.tape;
}

Tape mtp_tape(const Setting& setting, const MemoryProfile& profile, const MemorySizes& sizes) {
  Layer l(setting, profile, sizes, {});
  const double hidden = l.split(setting.model.hidden), statistics = sizes.split_tokens * 4;
  const int x = l.tape.tensor("residual stream", hidden), embedded = l.tape.tensor("next token's embedding", hidden);
  const int a = l.norm("embedding's norm", "normed embedding", embedded, hidden, statistics, none);
  const int b = l.norm("hidden state's norm", "normed hidden state", x, hidden, statistics, none);
  const int both = l.tape.tensor("embedding and hidden state", 2 * hidden);
  l.tape.add({.name = "concatenation", .in = {a, b, none, none}, .out = {both, none, none, none}});
  l.linear("projection of both", "residual stream", both, hidden, none);
  return l.tape;
}

}  // namespace trireme::sim
