#include "train/checkpoint/hf_export.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "model/hf_config.h"
#include "model/parameters.h"
#include "train/checkpoint/hf_names.h"
#include "train/checkpoint/safetensors.h"
#include "train/hf/export_folder.h"
#include "train/hf/hf_companions.h"

namespace trireme::train {
namespace {

using model::Family;

struct Shard {
  std::vector<const model::ParameterSpec*> parameters;
  std::vector<TensorEntry> entries;
  std::uint64_t bytes = 0;
};

// The query and key norms are what tells the families apart.
Family choose_family(const model::ModelSpec& spec, const HfExportOptions& options) {
  if (options.family) return *options.family;
  if (spec.family != Family::trireme) return spec.family;
  return spec.attention.qk_norm ? Family::qwen3_moe : Family::mixtral;
}

const char* torch_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return "float64";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      return "float32";
  }
}

std::vector<Shard> cut(const std::vector<model::ParameterSpec>& parameters, Family family, at::ScalarType dtype,
                       std::int64_t max_shard_bytes) {
  std::vector<Shard> shards(1);
  for (const model::ParameterSpec& parameter : parameters) {
    TensorEntry entry{.name = hf_name(parameter, family), .dtype = dtype, .shape = parameter.shape};
    const std::uint64_t bytes = entry.bytes();
    if (!shards.back().entries.empty() && shards.back().bytes + bytes > static_cast<std::uint64_t>(max_shard_bytes)) {
      shards.emplace_back();
    }
    shards.back().bytes += bytes;
    shards.back().parameters.push_back(&parameter);
    shards.back().entries.push_back(std::move(entry));
  }
  return shards;
}

std::string shard_file(std::size_t i, std::size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
}

}  // namespace

std::vector<std::string> export_hf(const WeightSource& source, const HfExportOptions& options) {
  const model::ModelSpec& spec = source.model();
  const Family family = choose_family(spec, options);
  nlohmann::json ours = model::to_hf_config(spec, family);
  const std::vector<model::ParameterSpec> parameters = model::parameters(spec);
  for (const model::ParameterSpec& parameter : parameters) source.check(parameter);
  const at::ScalarType dtype = options.dtype.value_or(source.read(parameters.front()).scalar_type());
  ours["torch_dtype"] = ours["dtype"] = torch_name(dtype);  // transformers 4 and 5
  const nlohmann::ordered_json config = merged_config(ours, options.companions);

  const std::vector<Shard> shards = cut(parameters, family, dtype, options.max_shard_bytes);
  const std::vector<std::filesystem::path> companions = tokenizer_files_in(options.companions);
  std::vector<std::string> files = {"config.json"};
  for (std::size_t i = 0; i < shards.size(); ++i) files.push_back(shard_file(i, shards.size()));
  if (shards.size() > 1) files.push_back("model.safetensors.index.json");
  for (const auto& file : companions) files.push_back(file.filename().string());
  prepare_export_folder(options.folder, files, options.overwrite);

  nlohmann::ordered_json weight_map = nlohmann::ordered_json::object();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Shard& shard = shards[i];
    const std::string file = shard_file(i, shards.size());
    SafetensorsWriter writer(options.folder / file, shard.entries, {{"format", "pt"}});
    for (std::size_t j = 0; j < shard.parameters.size(); ++j) {
      writer.write(shard.entries[j].name, source.read(*shard.parameters[j]).to(dtype));
      weight_map[shard.entries[j].name] = file;
    }
    writer.commit();
    total += shard.bytes;
  }
  if (shards.size() > 1) {
    const nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weight_map)}};
    write_file_atomically(options.folder / "model.safetensors.index.json", index.dump(1) + "\n");
  }
  for (const auto& file : companions)
    std::filesystem::copy_file(file, options.folder / file.filename(), std::filesystem::copy_options::overwrite_existing);
  write_file_atomically(options.folder / "config.json", config.dump(2) + "\n");
  return files;
}

}  // namespace trireme::train
