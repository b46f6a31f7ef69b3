#include "sim/estimate/memory_weights.h"

#include <algorithm>

#include "base/errors.h"
#include "model/parameter_parts.h"
#include "sim/estimate/memory_layers.h"

namespace trireme::sim {

namespace {

using model::AttentionKind;

struct Builder {
  const Setting& setting;
  const model::ModelSpec& spec;
  double h, tp;
  WeightList out;

  explicit Builder(const Setting& s) : setting(s), spec(s.model), h(s.model.hidden), tp(s.layout.tp) {}

  void matrix(const char* name, double rows, double columns, WeightPlace place = WeightPlace::tensor, double count = 1,
              bool accumulates = true) {
    if (rows > 0 && columns > 0) out.add({name, rows, columns, count, WeightKind::matrix, place, accumulates});
  }
  void vector(const char* name, double rows, WeightPlace place = WeightPlace::whole, double count = 1) {
    if (rows > 0) out.add({name, rows, 1, count, WeightKind::vector, place, false});
  }
  void table(const char* name, double rows, WeightPlace place, bool accumulates) {
    out.add({name, rows, h, 1, WeightKind::table, place, accumulates});
  }
  void norm(const char* name, double width, WeightPlace place = WeightPlace::whole) {
    vector(name, spec.norm == model::NormKind::layer ? 2 * width : width, place);
  }
  double heads() const { return std::max(1.0, spec.attention.num_heads / tp); }
  double kv_heads() const { return std::max(1.0, spec.attention.num_kv_heads / tp); }

  void grouped() {
    const auto& a = spec.attention;
    const double d = a.head_dim, dv = a.value_dim(), kv = kv_heads() * (a.shared_kv ? d : d + dv);
    if (a.q_lora_rank > 0) {
      matrix("query down-projection", a.q_lora_rank, h, WeightPlace::whole);
      norm("query latent norm", a.q_lora_rank);
      matrix("query up-projection", heads() * d, a.q_lora_rank);
      matrix("k, v projection", kv, h);
    } else {
      matrix("q, k, v projection", heads() * d + kv, h);
    }
    if (a.bias) vector("q, k, v bias", heads() * d + kv, WeightPlace::tensor);
    if (a.output_gate) matrix("output gate", heads() * dv, h);
    if (a.qk_norm) vector("norms of queries and keys", a.qk_norm_joint ? heads() * d + kv_heads() * d : 2 * d);
    if (a.sinks) vector("sinks", heads(), WeightPlace::tensor);
    if (a.o_lora_rank > 0) {
      matrix("output down-projection", a.o_lora_rank, heads() * dv);
      matrix("output projection", h, static_cast<double>(a.o_lora_rank) * a.o_groups / tp);
    } else {
      matrix("output projection", h, heads() * dv);
    }
    if (a.output_bias) vector("output bias", h);
  }

  void latent() {
    const auto& a = spec.attention;
    const double d = a.qk_nope_dim + a.qk_rope_dim, dv = a.value_dim();
    if (a.q_lora_rank > 0) {
      matrix("query down-projection", a.q_lora_rank, h, WeightPlace::whole);
      norm("query latent norm", a.q_lora_rank);
    }
    matrix("query up-projection", heads() * d, a.q_lora_rank > 0 ? a.q_lora_rank : h);
    matrix("key-value down-projection", a.kv_lora_rank + a.qk_rope_dim, h, WeightPlace::whole);
    norm("key-value latent norm", a.kv_lora_rank);
    matrix("key-value up-projection", heads() * (a.qk_nope_dim + dv), a.kv_lora_rank);
    matrix("output projection", h, heads() * dv);
  }

  void linear_mixer() {
    const auto& m = spec.linear;
    const double inner = static_cast<double>(m.num_heads) * m.head_dim / tp, heads = m.num_heads / tp;
    const double state = static_cast<double>(m.num_groups) * m.state_dim / tp;
    if (m.kind == model::LinearMixerKind::mamba2) {
      matrix("mixer's input projection", 2 * inner + 2 * state + heads, h);
      matrix("convolution", inner + 2 * state, m.conv_width, WeightPlace::tensor, 1, false);
      vector("convolution's bias, rates and skips", inner + 2 * state + 3 * heads, WeightPlace::tensor);
    } else {
      matrix("mixer's input projection", 2 * inner + 2 * state + 2 * heads, h);
      matrix("convolution", inner + 2 * state, m.conv_width, WeightPlace::tensor, 1, false);
      vector("rates", 2 * heads, WeightPlace::tensor);
    }
    vector("mixer's norm", m.kind == model::LinearMixerKind::mamba2 ? inner : m.head_dim, WeightPlace::tensor);
    matrix("output projection", h, inner);
  }

  void pair(const char* first, const char* second, double input, double width, WeightPlace place, double count,
            bool bias) {
    const double inner = spec.gated ? 2 * width : width;
    matrix(first, inner, input, place, count);
    matrix(second, input, width, place, count);
    if (bias) vector("biases", inner + input, place, count);
  }

  void moe() {
    const auto& m = spec.moe;
    const double width = m.latent_dim > 0 ? m.latent_dim : h,
                 experts = m.num_experts / static_cast<double>(setting.layout.ep);
    matrix("router", m.num_experts, h, WeightPlace::whole, 1, false);
    if (m.router.bias) vector("router bias", m.num_experts);
    if (m.latent_dim > 0) {
      matrix("projection to the experts' width", width, h, WeightPlace::whole);
      matrix("projection from the experts' width", h, width, WeightPlace::whole);
    }
    pair("experts' first matrices", "experts' second matrices", width,
         m.expert_ffn / static_cast<double>(setting.layout.etp), WeightPlace::expert, experts, m.expert_bias);
    if (m.shared_ffn > 0)
      pair("shared expert's first matrix", "shared expert's second matrix", h, m.shared_ffn / tp, WeightPlace::tensor,
           1, false);
    if (m.shared_gate) matrix("shared expert's gate", 1, h, WeightPlace::whole, 1, false);
  }
};

}  // namespace

void WeightList::add(const Weight& w) {
  TRIREME_CHECK(size < capacity, "a layer has more kinds of weights than expected");
  items[size++] = w;
}

WeightList layer_weights(const Setting& setting, int layer) {
  Builder b(setting);
  const auto& spec = setting.model;
  const model::Mixer mixer = spec.mixer(layer);
  if (mixer != model::Mixer::none) {
    b.norm("attention norm", b.h);
    if (mixer == model::Mixer::linear)
      b.linear_mixer();
    else if (spec.attention.kind == AttentionKind::latent)
      b.latent();
    else
      b.grouped();
    if (spec.sandwich_norms) b.norm("norm behind attention", b.h);
  }
  const model::FeedForward kind = spec.feed_forward(layer);
  if (kind != model::FeedForward::none) {
    b.norm("feed-forward's norm", b.h);
    if (kind == model::FeedForward::moe)
      b.moe();
    else
      b.pair("first matrix", "second matrix", b.h, spec.dense_ffn / b.tp, WeightPlace::tensor, 1, spec.mlp_bias);
    if (spec.sandwich_norms) b.norm("norm behind the feed-forward", b.h);
  }
  // What a rare architecture has beside these (compressors, indices, mixed residual streams).
  const auto& l = setting.layout;
  const double all = static_cast<double>(model::layer_parameters(spec, layer, {l.tp, l.ep, l.etp}).total());
  const double named = elements(b.out).total();
  if (all > named) b.vector("further parameters", all - named);
  return b.out;
}

WeightList embedding_weights(const Setting& setting, const model::Kernels& kernels) {
  Builder b(setting);
  b.table("embedding", vocabulary_rows(setting, kernels), WeightPlace::tensor, false);
  if (setting.model.learned_positions > 0)
    b.table("positions", setting.model.learned_positions, WeightPlace::whole, false);
  return b.out;
}

WeightList head_weights(const Setting& setting, const model::Kernels& kernels, bool own_matrix) {
  Builder b(setting);
  b.norm("final norm", b.h);
  if (own_matrix) b.table("head", vocabulary_rows(setting, kernels), WeightPlace::tensor, true);
  return b.out;
}

WeightList mtp_weights(const Setting& setting) {
  Builder b(setting);
  b.norm("embedding's norm", b.h);
  b.norm("hidden state's norm", b.h);
  b.matrix("projection of both", b.h / b.tp, 2 * b.h);
  b.norm("norm before the head", b.h);
  return b.out;
}

WeightElements elements(const WeightList& list) {
  WeightElements out;
  for (const Weight& w : list) (w.place == WeightPlace::expert ? out.expert : out.dense) += w.elements();
  return out;
}

double accumulated_elements(const WeightList& list) {
  double out = 0;
  for (const Weight& w : list)
    if (w.kind == WeightKind::matrix && w.accumulates) out += w.elements();
  return out;
}

WeightTable::WeightTable(const Setting& s, const model::Kernels& p) : setting(s), kernels(p) {}

const WeightTable::Entry& WeightTable::layer(int layer) {
  const model::Mixer mixer = setting.model.mixer(layer);
  const model::FeedForward feed_forward = setting.model.feed_forward(layer);
  const int compression = setting.model.compression(layer);
  for (int i = 0; i < num_entries_; ++i)
    if (entries_[i].mixer == mixer && entries_[i].feed_forward == feed_forward &&
        entries_[i].compression == compression)
      return entries_[i];
  TRIREME_CHECK(num_entries_ < capacity, "more kinds of layers than expected");
  Entry& entry = entries_[num_entries_];
  entry.number = num_entries_++;
  entry.mixer = mixer, entry.feed_forward = feed_forward, entry.compression = compression;
  entry.list = layer_weights(setting, layer);
  entry.elements = elements(entry.list);
  entry.accumulated = accumulated_elements(entry.list);
  return entry;
}

}  // namespace trireme::sim
