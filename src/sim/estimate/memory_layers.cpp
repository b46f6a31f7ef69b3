#include "sim/estimate/memory_layers.h"

#include <algorithm>

#include "sim/estimate/memory_builder.h"

namespace trireme::sim {

using plan::Recompute;
using B = LayerBuilder;
constexpr int none = Tape::none;

Tape layer_tape(const Setting& setting, const model::Kernels& kernels, const MemorySizes& sizes, int layer,
                plan::RecomputeSet recompute) {
  LayerBuilder l(setting, kernels, sizes, recompute);
  const auto& spec = setting.model;
  const double hidden = l.split(spec.hidden), statistics = sizes.split_tokens * 4;
  int x = l.tape.tensor("residual stream", hidden);
  const model::Mixer mixer = spec.mixer(layer);
  if (mixer != model::Mixer::none) {
    const int outer = l.group({{Recompute::attention, B::attention_block}});
    const int n = l.norm("attention norm", "normed input", x, hidden, statistics,
                         outer != none ? outer : l.group({{Recompute::norm, B::first_norm}}));
    int out = none;
    if (mixer == model::Mixer::linear)
      out = l.linear_mixer(n, outer);
    else if (spec.attention.kind == model::AttentionKind::latent)
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
    const int outer = moe ? l.group({{Recompute::moe, B::moe_block}}) : l.group({{Recompute::mlp, B::mlp_block}});
    const int n = l.norm("feed-forward's norm", "feed-forward's input", x, hidden, statistics,
                         l.group({{Recompute::norm, B::second_norm}}));
    int out = moe ? l.moe(n, outer) : l.dense(n, spec.dense_ffn, outer, B::activation, false);
    if (spec.sandwich_norms)
      out = l.norm("norm behind the feed-forward", "normed output", out, hidden, statistics, l.group({}));
    out = l.dropout("dropout behind the feed-forward", out, l.group({}));
    x = l.residual("sum behind the feed-forward", out, x, l.group({}));
  }
  return l.tape;
}

Tape head_tape(const Setting& setting, const model::Kernels& kernels, const MemorySizes& sizes) {
  LayerBuilder l(setting, kernels, sizes, {});
  const auto& spec = setting.model;
  const double hidden = l.split(spec.hidden), rows = vocabulary_rows(setting, kernels);
  const int x = l.tape.tensor("last hidden state", hidden);
  const int n = l.norm("final norm", "normed hidden state", x, hidden, sizes.split_tokens * 4, none);
  const double gathered = l.sequence_parallel() ? l.full(spec.hidden) : 0;
  const double loss_bytes = sizes.tokens * 4;
  if (kernels.loss == model::LossKind::chunked) {
    const double chunk = std::min(static_cast<double>(kernels.loss_chunk_tokens), sizes.tokens);
    const int loss = l.tape.tensor("loss", loss_bytes), gradient = l.tape.tensor("hidden state's gradient", hidden, 0);
    l.tape.add({.name = "logits and loss in chunks",
                .in = {n},
                .out = {loss, gradient},
                .saved = {gradient},
                .has_weight = false,
                .forward_workspace = chunk * rows * (sizes.element + 4) + gathered});
    return l.tape;
  }
  const double logits_bytes = sizes.tokens * rows * sizes.element;
  const int logits = l.tape.tensor("logits", logits_bytes);
  l.tape.add({.name = "logits",
              .in = {n},
              .out = {logits},
              .saved = {n},
              .has_weight = true,
              .forward_workspace = gathered,
              .backward_workspace = 2 * gathered});
  const int loss = l.tape.tensor("loss", loss_bytes);
  const double wide = sizes.tokens * rows * 4;
  model::LossKind kind = kernels.loss;
  if (kind == model::LossKind::in_place && !setting.execution.fused_loss) kind = model::LossKind::float32;
  switch (kind) {
    case model::LossKind::in_place:
      // The logits' storage becomes their gradient: kept, and handed on without another allocation.
      l.tape.add({.name = "loss", .in = {logits}, .out = {loss}, .saved = {logits}, .gradient_in_place = true});
      break;
    case model::LossKind::float32: {
      const int probs = l.tape.tensor("logits in float32", wide, 0);
      l.tape.add({.name = "loss", .in = {logits}, .out = {loss, probs}, .saved = {probs}});
      break;
    }
    default: {
      const int copy = l.tape.tensor("logits in float32", wide), probs = l.tape.tensor("probabilities", wide, 0);
      l.tape.add({.name = "logits to float32", .in = {logits}, .out = {copy}});
      l.tape.add({.name = "loss", .in = {copy}, .out = {loss, probs}, .saved = {copy, probs}});
    }
  }
  return l.tape;
}

Tape mtp_tape(const Setting& setting, const model::Kernels& kernels, const MemorySizes& sizes) {
  LayerBuilder l(setting, kernels, sizes, {});
  const double hidden = l.split(setting.model.hidden), statistics = sizes.split_tokens * 4;
  const int x = l.tape.tensor("residual stream", hidden), embedded = l.tape.tensor("next token's embedding", hidden);
  const int a = l.norm("embedding's norm", "normed embedding", embedded, hidden, statistics, none);
  const int b = l.norm("hidden state's norm", "normed hidden state", x, hidden, statistics, none);
  const int both = l.tape.tensor("embedding and hidden state", 2 * hidden);
  l.tape.add({.name = "concatenation", .in = {a, b}, .out = {both}});
  l.linear("projection of both", "residual stream", both, hidden, none);
  return l.tape;
}

}  // namespace trireme::sim
