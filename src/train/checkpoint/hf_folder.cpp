#include "train/checkpoint/hf_folder.h"

#include <fstream>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/regular_file.h"
#include "model/untrainable.h"
#include "train/checkpoint/hf_names.h"
#include "train/checkpoint/plain_file_name.h"
#include "train/checkpoint/safetensors_types.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
constexpr const char* one_file = "model.safetensors";
constexpr const char* shard_index = "model.safetensors.index.json";

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& key, const std::string& what) {
  throw ConfigError({.file = file.string(), .key = key, .allowed = what});
}

}  // namespace

HfFolder::HfFolder(const std::filesystem::path& folder)
    : folder_(folder), model_(model::load_model(folder / "config.json")) {
  model::refuse_untrainable(model_, (folder / "config.json").string());
  if (model_.family == model::Family::trireme)
    fail(folder / "config.json", "model_type", "weights of this family are not read: expected mixtral or qwen3_moe");
  const bool has_index = fs::exists(folder / shard_index), has_whole = fs::exists(folder / one_file);
  if (!has_index && !has_whole) fail(folder, "", fmt::format("holds neither {} nor {}", one_file, shard_index));
  if (has_whole) {
    for (const auto& [name, entry] : open(one_file).entries()) add(name, one_file);
    if (!has_index || has_all()) {
      if (has_index) note_ = fmt::format("{} holds {} and {}: {} is read", folder.string(), one_file, shard_index, one_file);
      return;
    }
    file_of_.clear(), name_in_file_.clear();
    note_ = fmt::format("{} holds {}, which is not complete, and {}: the latter is read", folder.string(), one_file, shard_index);
  }
  read_index();
}

// "model.language_model.layers.0..." and "language_model.model.layers.0..." are "model.layers.0...".
void HfFolder::add(const std::string& name, const std::string& file) {
  std::string plain = name;
  for (const auto& [prefix, instead] : {std::pair("model.language_model.", "model."), std::pair("language_model.", "")})
    if (name.starts_with(prefix)) {
      plain = instead + name.substr(std::string_view(prefix).size());
      break;
    }
  file_of_[plain] = file;
  name_in_file_[plain] = name;
}

void HfFolder::read_index() {
  const fs::path path = folder_ / shard_index;
  std::ifstream in = open_regular(path);
  const nlohmann::json index = nlohmann::json::parse(in, nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    fail(path, "weight_map", "expected an object of tensor names and files");
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string()) fail(path, name, "expected a file name");
    const auto text = file.get<std::string>();
    if (!is_plain_file_name(text))
      throw ConfigError({.file = path.string(), .key = name, .value = text, .allowed = "must name a file beside the index"});
    add(name, text);
  }
}

bool HfFolder::has_all() const {
  try {
    for (const model::ParameterSpec& parameter : model::parameters(model_)) check(parameter);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

const std::string* HfFolder::file_of(const std::string& tensor) const {
  const auto found = file_of_.find(tensor);
  return found == file_of_.end() ? nullptr : &found->second;
}

const SafetensorsFile& HfFolder::open(const std::string& file) const {
  auto& opened = files_[file];
  if (!opened) {
    if (!fs::exists(folder_ / file)) fail(folder_ / file, "", fmt::format("no such file, and {} names it: a shard is missing", shard_index));
    opened = std::make_unique<SafetensorsFile>(folder_ / file);
  }
  return *opened;
}

HfFolder::Place HfFolder::place_of(const model::ParameterSpec& parameter) const {
  std::string name = hf_name(parameter, model_.family);
  Place place;
  if (!file_of(name) && parameter.expert >= 0) {
    const FusedExpert fused = hf_fused_expert(parameter, model_.moe.expert_ffn);
    if (file_of(fused.name)) name = fused.name, place.expert = parameter.expert, place.first_row = fused.first_row;
  } else if (!file_of(name) && parameter.name.ends_with(".router.weight") && file_of(hf_fused_router(parameter.layer))) {
    name = hf_fused_router(parameter.layer);
  }
  if (!file_of(name)) fail(folder_, name, fmt::format("no such tensor in the folder (for {})", parameter.name));
  place.file = *file_of(name);
  place.name = name_in_file_.at(name);
  const auto& entries = open(place.file).entries();
  const auto found = entries.find(place.name);
  if (found == entries.end()) fail(folder_ / place.file, place.name, "no such tensor in this file");
  const TensorEntry& entry = found->second;
  if (place.expert >= 0) {
    if (entry.shape.size() != 3 || parameter.expert >= entry.shape[0] || place.first_row + parameter.shape[0] > entry.shape[1] ||
        entry.shape[2] != parameter.shape[1])
      fail(folder_ / place.file, place.name,
           fmt::format("is {}: no room for {}", describe(entry.dtype, entry.shape), parameter.name));
  } else if (entry.shape != parameter.shape) {
    fail(folder_ / place.file, place.name,
         fmt::format("is {}, and the model needs ({})", describe(entry.dtype, entry.shape), fmt::join(parameter.shape, ", ")));
  }
  return place;
}

void HfFolder::check(const model::ParameterSpec& parameter) const { place_of(parameter); }

at::Tensor HfFolder::read(const model::ParameterSpec& parameter) const {
  const Place place = place_of(parameter);
  const at::Tensor found = open(place.file).tensor(place.name);
  return place.expert < 0 ? found : found.select(0, place.expert).narrow(0, place.first_row, parameter.shape[0]);
}

}  // namespace trireme::train
