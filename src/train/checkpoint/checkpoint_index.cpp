#include "train/checkpoint/checkpoint_index.h"

#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_words.h"
#include "base/regular_file.h"
#include "model/parameters.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/plain_file_name.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/safetensors_types.h"

namespace trireme::train {
namespace {

constexpr const char* format_name = "trireme-checkpoint";
constexpr int format_version = 1;
constexpr const char* checksums_key = "xxh3";
constexpr const char *step_key = "step", *run_key = "run", *session_key = "session";

[[noreturn]] void fail_commit(const std::string& reason) {
  throw RuntimeFailure({.operation = "checkpoint", .reason = reason});
}

}  // namespace

std::map<std::string, std::string> rank_file_metadata(std::int64_t step, const RunIdentity& writer,
                                                      const std::vector<NamedTensor>& tensors) {
  nlohmann::json checksums = nlohmann::json::object();
  for (const NamedTensor& t : tensors) checksums[t.name] = checksum(t.tensor);
  return {{"format", "pt"},          {step_key, std::to_string(step)},    {run_key, writer.run},
          {session_key, writer.session}, {checksums_key, checksums.dump()}};
}

std::string why_foreign(const std::map<std::string, std::string>& metadata, std::int64_t step, const RunIdentity& writer) {
  const auto differs = [&](const char* key, const std::string& wanted) {
    const auto found = metadata.find(key);
    return found != metadata.end() && !found->second.empty() && !wanted.empty() && found->second != wanted;
  };
  if (differs(run_key, writer.run)) return fmt::format("was written by run {}, not by run {}", metadata.at(run_key), writer.run);
  if (differs(session_key, writer.session))
    return fmt::format("was written by session {} of the run, not by session {}", metadata.at(session_key), writer.session);
  if (differs(step_key, std::to_string(step))) return fmt::format("is of step {}, not of step {}", metadata.at(step_key), step);
  return {};
}

CheckpointIndex index_rank_files(const std::filesystem::path& folder, std::int64_t step, const RunIdentity& writer,
                                 int num_ranks) {
  CheckpointIndex index{.step = step, .writer = writer};
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::string file = rank_file(rank);
    if (!std::filesystem::exists(folder / file)) continue;
    const SafetensorsFile opened(folder / file);
    if (const std::string foreign = why_foreign(opened.metadata(), step, writer); !foreign.empty())
      fail_commit(fmt::format("{} {}: another run writes into {}", file, foreign, folder.parent_path().string()));
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
  nlohmann::ordered_json out = {{"format", format_name},
                                {"version", format_version},
                                {step_key, index.step},
                                {run_key, index.writer.run},
                                {session_key, index.writer.session},
                                {"files", index.files},
                                {"tensors", std::move(tensors)}};
  out[checksum_key] = checksum(nlohmann::json(out));
  return out.dump(1) + "\n";
}

CheckpointIndex read_index(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& key, const std::string& what) {
    throw ConfigError({.file = path.string(), .key = key, .allowed = what});
  };
  std::ifstream in = open_regular(path);
  if (!in) fail("", "no such file, or it cannot be read: not a complete checkpoint");
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != format_name) {
    fail("", "not the index of a Trireme checkpoint");
  }
  if (json.value("version", nlohmann::json()) != format_version) {
    fail("version", fmt::format("must be {}", format_version));
  }
  CheckpointIndex index;
  index.has_checksum = json.contains(checksum_key);
  if (index.has_checksum && json[checksum_key] != checksum(json))
    fail(checksum_key, "its content has another checksum: the file was changed or damaged after it was written");
  try {
    index.step = json.at(step_key).get<std::int64_t>();
    index.writer = {json.value(run_key, std::string()), json.value(session_key, std::string())};
    if (json.contains("files")) index.files = json.at("files").get<std::map<std::string, std::string>>();
    for (const auto& [name, value] : json.at("tensors").items()) {
      const auto dtype = scalar_type(value.at("dtype").get<std::string>());
      if (!dtype) fail(name, "unknown element type");
      index.tensors[name] = {value.at("file").get<std::string>(), *dtype,
                             value.at("shape").get<std::vector<std::int64_t>>(),
                             value.value("xxh3", std::string())};
      if (!is_plain_file_name(index.tensors[name].file)) fail(name, "must name a file beside the index");
    }
  } catch (const nlohmann::json::exception& e) {
    fail("", fmt::format("malformed: {}", json_words(e)));
  }
  return index;
}

}  // namespace trireme::train
