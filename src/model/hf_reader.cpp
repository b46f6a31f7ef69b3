#include "model/hf_reader.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace trireme::model {
namespace {

using nlohmann::json;

// The period and offset of the marked entries, where they come every so many from `first` on; {0, 0} where none is.
std::optional<std::pair<int, int>> period_of(const std::vector<bool>& marked, int first) {
  const int count = static_cast<int>(marked.size());
  const auto is = [&](int i) { return marked[static_cast<std::size_t>(i)]; };
  int any = first;
  while (any < count && !is(any)) ++any;
  if (any == count) return std::pair(0, 0);
  for (int period = 1; period <= count; ++period) {
    const int offset = any % period;
    bool fits = true;
    for (int i = first; i < count && fits; ++i) fits = is(i) == (i % period == offset);
    if (fits) return std::pair(period, offset);
  }
  return std::nullopt;
}

RopeScaling scaling_from(const HfReader& rope, const char* key) {
  static const std::map<std::string, RopeScaling> known = {
      {"default", RopeScaling::none}, {"linear", RopeScaling::linear}, {"dynamic", RopeScaling::dynamic},
      {"yarn", RopeScaling::yarn},    {"llama3", RopeScaling::llama3}, {"longrope", RopeScaling::longrope}};
  const auto found = known.find(rope.get<std::string>(key, "default"));
  if (found == known.end()) rope.fail(key, "expected default, linear, dynamic, yarn, llama3 or longrope");
  return found->second;
}

}  // namespace

void HfReader::fail(const std::string& key, std::string allowed) const {
  std::string value = key.empty() || !config_.is_object() || !config_.contains(key) ? "" : config_.at(key).dump();
  throw ConfigError({.file = file_, .key = prefix_ + key, .value = std::move(value), .allowed = std::move(allowed)});
}

void read_hf_common(const HfReader& hf, ModelSpec& spec) {
  const auto size = [&](const char* key, int otherwise) {
    return otherwise > 0 ? hf.integer(key, otherwise) : hf.required(key);
  };
  AttentionSpec& a = spec.attention;
  spec.vocab_size = size("vocab_size", static_cast<int>(spec.vocab_size));
  spec.hidden = size("hidden_size", spec.hidden);
  spec.num_layers = size("num_hidden_layers", spec.num_layers);
  // What follows makes lists of the layers.
  hf.refuse_unless(spec.num_layers >= 1 && spec.num_layers <= most_layers, "num_hidden_layers",
                   fmt::format("must lie in [1, {}]", most_layers));
  a.num_heads = size("num_attention_heads", a.num_heads);
  a.num_kv_heads = hf.integer("num_key_value_heads", a.num_kv_heads > 0 ? a.num_kv_heads : a.num_heads);
  // Absent and null both mean the quotient.
  a.head_dim = hf.integer("head_dim", a.num_heads > 0 ? spec.hidden / a.num_heads : 0);
  spec.norm_eps = hf.get<double>("rms_norm_eps", spec.norm_eps);
  spec.init_std = hf.get<double>("initializer_range", 0.02);
  spec.tied_embeddings = hf.get<bool>("tie_word_embeddings", spec.tied_embeddings);
  hf.refuse_unless(hf.get<std::string>("hidden_act", "silu") == "silu", "hidden_act", "must be \"silu\"");
  hf.refuse_unless(hf.get<double>("attention_dropout", 0) == 0, "attention_dropout", "must be 0");
}

void read_hf_rotation(const HfReader& hf, double theta, AttentionSpec& attention) {
  attention.rope_theta = hf.get<double>("rope_theta", theta);
  attention.rope_fraction = hf.get<double>("partial_rotary_factor", 1.0);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!hf.has(key)) continue;
    const HfReader rope = hf.object(key);
    for (const char* type : {"rope_type", "type"})
      if (rope.has(type)) attention.rope_scaling = scaling_from(rope, type);
    attention.rope_fraction = rope.get<double>("partial_rotary_factor", attention.rope_fraction);
    attention.rope_theta = rope.get<double>("rope_theta", attention.rope_theta);
  }
}

void read_hf_windows(const HfReader& hf, ModelSpec& spec) {
  if (!hf.has("sliding_window")) return;
  AttentionSpec& a = spec.attention;
  a.window = hf.integer("sliding_window", 0);
  hf.refuse_unless(a.window >= 1, "sliding_window", "must be at least 1");
  if (!hf.has("layer_types")) return;
  std::vector<bool> full;
  for (const json& type : hf.at("layer_types")) {
    hf.refuse_unless(type == "full_attention" || type == "sliding_attention", "layer_types",
                     "expected full_attention and sliding_attention");
    full.push_back(type == "full_attention");
  }
  hf.refuse_unless(full.size() == static_cast<std::size_t>(spec.num_layers), "layer_types",
                   fmt::format("must have num_hidden_layers ({}) entries", spec.num_layers));
  const auto period = period_of(full, 0);
  if (!period) hf.fail("layer_types", "full_attention must come every so many layers, or in none or all");
  std::tie(a.full_every, a.full_offset) = *period;
  if (a.full_every == 1) a.window = a.full_every = 0;  // every layer is full
}

void read_hf_switched_windows(const HfReader& hf, ModelSpec& spec) {
  if (!hf.get<bool>("use_sliding_window", false) || !hf.has("sliding_window")) return;
  const int first = hf.integer("max_window_layers", spec.num_layers);
  if (hf.has("layer_types")) return read_hf_windows(hf, spec);
  if (first >= spec.num_layers) return;
  hf.refuse_unless(first <= 0, "max_window_layers", "must be 0 or num_hidden_layers where windows are used");
  read_hf_windows(hf, spec);
}

void set_dense_layers(const HfReader& hf, const char* key, const std::vector<bool>& dense, ModelSpec& spec) {
  const int layers = static_cast<int>(dense.size());
  std::vector<bool> moe(dense);
  moe.flip();
  int first = 0;
  while (first < layers && !moe[static_cast<std::size_t>(first)]) ++first;
  if (first == layers) {
    spec.moe = {};  // no layer uses the experts
    return;
  }
  const auto period = period_of(moe, first);
  if (!period) hf.fail(key, "leaves dense layers in no order: they must be the first ones, or all but every so many");
  spec.moe.every = period->first;
  spec.moe.offset = period->first == 1 ? 0 : period->second;
  // Of dense layers before the first MoE layer only those count that its period doesn't explain.
  spec.num_dense_layers = first < period->first && first == spec.moe.offset ? 0 : first;
}

}  // namespace trireme::model
