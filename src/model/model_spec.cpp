#include "model/model_spec.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_words.h"
#include "base/read_file.h"
#include "model/hf_config.h"

namespace trireme::model {
namespace {

// Whether a layer is one of those that come every `period` layers.
bool falls_on(int layer, int period, int offset) {
  return period > 0 && layer % period == offset;
}

}  // namespace

Mixer ModelSpec::mixer(int layer) const {
  if (layer >= num_layers) return Mixer::attention;
  if (!pattern.empty()) {
    const char letter = pattern[static_cast<std::size_t>(layer)];
    return letter == '*' ? Mixer::attention : letter == 'M' ? Mixer::linear : Mixer::none;
  }
  const bool hybrid = linear.kind != LinearMixerKind::none;
  return hybrid && !falls_on(layer, linear.attention_every, linear.attention_offset) ? Mixer::linear : Mixer::attention;
}

FeedForward ModelSpec::feed_forward(int layer) const {
  const bool experts = moe.num_experts > 0;
  if (layer >= num_layers) return experts ? FeedForward::moe : FeedForward::dense;
  if (!pattern.empty()) {
    const char letter = pattern[static_cast<std::size_t>(layer)];
    return letter == 'E' ? FeedForward::moe : letter == '-' ? FeedForward::dense : FeedForward::none;
  }
  const bool routed =
      experts && layer >= num_dense_layers && (moe.every == 1 || falls_on(layer, moe.every, moe.offset));
  return routed ? FeedForward::moe : FeedForward::dense;
}

int ModelSpec::num_moe_layers() const {
  int count = 0;
  for (int layer = 0; layer < num_layers; ++layer) count += is_moe(layer) ? 1 : 0;
  return count;
}

int ModelSpec::window(int layer) const {
  if (attention.window == 0 || mixer(layer) != Mixer::attention) return 0;
  return falls_on(layer, attention.full_every, attention.full_offset) ? 0 : attention.window;
}

int ModelSpec::compression(int layer) const {
  const auto index = static_cast<std::size_t>(layer);
  return index < attention.compression.size() ? attention.compression[index] : 0;
}

ModelSpec with_layers(ModelSpec spec, int num_layers, int num_dense_layers) {
  TRIREME_CHECK(num_layers >= 1, "a model of {} layers", num_layers);
  const auto size = static_cast<std::size_t>(num_layers);
  // A longer model goes on with what its last layers alternate between.
  const auto stretch = [&](auto& entries) {
    if (entries.empty()) return;
    if (entries.size() == 1) entries.push_back(entries[0]);
    while (entries.size() < size) entries.push_back(entries[entries.size() - 2]);
    entries.resize(size);
  };
  stretch(spec.pattern);
  stretch(spec.attention.compression);
  spec.num_layers = num_layers;
  spec.num_dense_layers = std::min(num_dense_layers >= 0 ? num_dense_layers : spec.num_dense_layers, num_layers);
  return spec;
}

ModelSpec load_model(const std::filesystem::path& named, const std::vector<std::string>& overrides) {
  const std::filesystem::path path = std::filesystem::is_directory(named) ? named / "config.json" : named;
  if (path != named && !std::filesystem::exists(path))
    throw ConfigError({.file = named.string(), .allowed = "is a folder without config.json: expected a Hugging Face folder, its "
                                                          "config.json, or a TOML file with a [model] table"});
  const auto read = [](ConfigTable table) {
    ConfigTable model = table.table("model");
    ModelSpec spec = read_model(model);
    table.finish();
    return spec;
  };
  if (path.extension() != ".json") return read(ConfigTable::from_file(path, overrides));
  const std::string text = read_file(path);
  nlohmann::json config;
  try {
    config = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    throw ConfigError({.file = path.string(), .allowed = fmt::format("not valid JSON: {}", json_words(e))});
  }
  const ModelSpec spec = from_hf_config(config, path.string());
  return overrides.empty() ? spec : read(ConfigTable::from_text(to_toml(spec), path.string(), overrides));
}

}  // namespace trireme::model
