#include "train/checkpoint/checkpoint_index.h"

#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/parameters.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/safetensors_types.h"

namespace trireme::train {
namespace {

constexpr const char* format_name = "trireme-checkpoint";
constexpr int format_version = 1;
constexpr const char* checksums_key = "xxh3";

[[noreturn]] void fail_commit(const std::string& reason) {
  throw RuntimeFailure({.operation = "checkpoint", .reason = reason});
}

}  // namespace

std::map<std::string, std::string> rank_file_metadata(std::int64_t step, const std::vector<NamedTensor>& tensors) {
  nlohmann::json checksums = nlohmann::json::object();
  for (const NamedTensor& t : tensors) checksums[t.name] = checksum(t.tensor);
  return {{"format", "pt"}, {"step", std::to_string(step)}, {checksums_key, checksums.dump()}};
}

CheckpointIndex index_rank_files(const std::filesystem::path& folder, std::int64_t step, int num_ranks) {
  CheckpointIndex index{.step = step};
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::string file = rank_file(rank);
    if (!std::filesystem::exists(folder / file)) continue;
    const SafetensorsFile opened(folder / file);
    const nlohmann::json checksums = nlohmann::json::parse(opened.metadata().at(checksums_key));
    for (const auto& [name, entry] : opened.entries()) {
      const auto [at, is_new] = index.tensors.try_emplace(name, IndexEntry{file, entry.dtype, entry.shape, checksums.at(name)});
      if (!is_new)
        fail_commit(fmt::format("{} is in {} and in {}: it must have one owner", name, at->second.file, file));
    }
  }
  return index;
}

void check_complete(const CheckpointIndex& index, const model::ModelSpec& model, const plan::FrozenParameters& frozen) {
  std::set<std::string> optimizer_kinds;  // "optimizer.exp_avg."
  const std::string of_optimizer = "optimizer.";
  for (const auto& [name, entry] : index.tensors) {
    if (name.starts_with(of_optimizer)) optimizer_kinds.insert(name.substr(0, name.find('.', of_optimizer.size()) + 1));
  }
  optimizer_kinds.insert("");
  for (const model::ParameterSpec& parameter : model::parameters(model)) {
    const bool is_frozen = !frozen.empty() && frozen.has(parameter.name);
    for (const std::string& kind : optimizer_kinds) {
      if (is_frozen && !kind.empty()) continue;
      const auto found = index.tensors.find(kind + parameter.name);
      if (found == index.tensors.end())
        fail_commit(fmt::format("{}{} is missing: no rank owns it", kind, parameter.name));
      if (found->second.shape != parameter.shape) {
        fail_commit(fmt::format("{}{} is {}, and the model has ({})", kind, parameter.name,
                                describe(found->second.dtype, found->second.shape), fmt::join(parameter.shape, ", ")));
      }
    }
  }
}

std::string to_json_text(const CheckpointIndex& index) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::object();
  for (const auto& [name, entry] : index.tensors) {
    tensors[name] = {{"file", entry.file}, {"dtype", safetensors_dtype(entry.dtype)}, {"shape", entry.shape}};
    if (!entry.xxh3.empty()) tensors[name]["xxh3"] = entry.xxh3;
  }
  nlohmann::ordered_json out = {
      {"format", format_name}, {"version", format_version}, {"step", index.step}, {"tensors", std::move(tensors)}};
  return out.dump(1) + "\n";
}

CheckpointIndex read_index(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& key, const std::string& what) {
    throw ConfigError({.file = path.string(), .key = key, .allowed = what});
  };
  std::ifstream in(path);
  if (!in) fail("", "no such file, or it cannot be read: not a complete checkpoint");
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != format_name) {
    fail("", "not the index of a Trireme checkpoint");
  }
  if (json.value("version", nlohmann::json()) != format_version) {
    fail("version", fmt::format("must be {}", format_version));
  }
  CheckpointIndex index;
  try {
    index.step = json.at("step").get<std::int64_t>();
    for (const auto& [name, value] : json.at("tensors").items()) {
      const auto dtype = scalar_type(value.at("dtype").get<std::string>());
      if (!dtype) fail(name, "unknown element type");
      index.tensors[name] = {value.at("file").get<std::string>(), *dtype,
                             value.at("shape").get<std::vector<std::int64_t>>(),
                             value.value("xxh3", std::string())};
    }
  } catch (const nlohmann::json::exception& e) {
    fail("", fmt::format("malformed: {}", e.what()));
  }
  return index;
}

}  // namespace trireme::train
