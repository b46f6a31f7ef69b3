#include "train/checkpoint/hf_folder.h"

#include <fstream>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/untrainable.h"
#include "train/checkpoint/hf_names.h"
#include "train/checkpoint/safetensors_types.h"

namespace trireme::train {
namespace {

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
  if (std::filesystem::exists(folder / shard_index)) {
    std::ifstream in(folder / shard_index);
    const nlohmann::json index = nlohmann::json::parse(in, nullptr, false);
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
      fail(folder / shard_index, "weight_map", "expected an object of tensor names and files");
    }
    for (const auto& [name, file] : index["weight_map"].items()) {
      if (!file.is_string()) fail(folder / shard_index, name, "expected a file name");
      file_of_[name] = file.get<std::string>();
    }
  } else if (std::filesystem::exists(folder / one_file)) {
    auto file = std::make_unique<SafetensorsFile>(folder / one_file);
    for (const auto& [name, entry] : file->entries()) file_of_[name] = one_file;
    files_[one_file] = std::move(file);
  } else {
    fail(folder, "", fmt::format("holds neither {} nor {}", one_file, shard_index));
  }
}

const std::string* HfFolder::file_of(const std::string& tensor) const {
  const auto found = file_of_.find(tensor);
  return found == file_of_.end() ? nullptr : &found->second;
}

at::Tensor HfFolder::tensor(const std::string& name) const {
  const std::string& file = *file_of(name);
  auto& open = files_[file];
  if (!open) open = std::make_unique<SafetensorsFile>(folder_ / file);
  return open->tensor(name);
}

at::Tensor HfFolder::read(const model::ParameterSpec& parameter) const {
  std::string name = hf_name(parameter, model_.family);
  at::Tensor found;
  if (file_of(name)) {
    found = tensor(name);
  } else if (parameter.expert >= 0) {
    const FusedExpert fused = hf_fused_expert(parameter, model_.moe.expert_ffn);
    if (file_of(fused.name)) {
      name = fused.name;
      const at::Tensor all = tensor(name);
      if (all.dim() != 3 || parameter.expert >= all.size(0) || fused.first_row + parameter.shape[0] > all.size(1)) {
        fail(folder_ / *file_of(name), name,
             fmt::format("is {}: no room for {}", describe(all.scalar_type(), all.sizes()), parameter.name));
      }
      found = all.select(0, parameter.expert).narrow(0, fused.first_row, parameter.shape[0]);
    }
  } else if (parameter.name.ends_with(".router.weight") && file_of(hf_fused_router(parameter.layer))) {
    name = hf_fused_router(parameter.layer);
    found = tensor(name);
  }
  if (!found.defined()) fail(folder_, name, fmt::format("no such tensor in the folder (for {})", parameter.name));
  if (found.sizes() != at::IntArrayRef(parameter.shape)) {
    fail(folder_ / *file_of(name), name,
         fmt::format("is {}, and the model needs ({})", describe(found.scalar_type(), found.sizes()),
                     fmt::join(parameter.shape, ", ")));
  }
  return found;
}

}  // namespace trireme::train
