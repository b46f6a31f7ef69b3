#include "train/hf/hf_companions.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/read_file.h"
#include "base/regular_file.h"
#include "model/hf_config.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/weight_source.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char *config_file = "config.json", *generation_file = "generation_config.json",
                     *longest_key = "max_position_embeddings", *type_key = "model_type";
constexpr std::array<std::pair<const char*, std::int32_t SpecialIds::*>, 3> id_keys = {
    {{"eos_token_id", &SpecialIds::eos}, {"bos_token_id", &SpecialIds::bos}, {"pad_token_id", &SpecialIds::pad}}};

// Empty where there is none that can be read.
ordered_json read_config(const fs::path& path) {
  std::ifstream in = open_regular(path);
  ordered_json json = ordered_json::parse(in, nullptr, false);
  if (!json.is_object()) return ordered_json::object();
  // Of a multimodal model only the language model is trained.
  if (json.contains("text_config") && json["text_config"].is_object() && !json.contains("hidden_size"))
    return json["text_config"];
  return json;
}

void write_json(const fs::path& path, const ordered_json& json) { write_file_atomically(path, json.dump(2) + "\n"); }

void set_ids(ordered_json& config, const SpecialIds& ids) {
  for (const auto& [key, member] : id_keys)
    config[key] = ids.*member >= 0 ? ordered_json(ids.*member) : ordered_json(nullptr);
}

void write_generation_config(const fs::path& folder, const SpecialIds& ids) {
  ordered_json json = ordered_json::object();
  for (const auto& [key, member] : id_keys)
    if (ids.*member >= 0) json[key] = ids.*member;
  if (ids.pad < 0 && ids.eos >= 0) json["pad_token_id"] = ids.eos;  // what generate() takes anyway, with a warning
  write_json(folder / generation_file, json);
}

bool same_file(const fs::path& a, const fs::path& b) {
  return fs::is_regular_file(a) && fs::is_regular_file(b) && fs::file_size(a) == fs::file_size(b) && read_file(a) == read_file(b);
}

// Whether two config.json describe one model to us.
bool same_model(const ordered_json& a, const nlohmann::json& b) {
  try {
    const auto left = model::from_hf_config(nlohmann::json(a), config_file), right = model::from_hf_config(b, config_file);
    check_same_model(left, right, config_file);
    return left.moe.router.aux_loss_coefficient == right.moe.router.aux_loss_coefficient && left.init_std == right.init_std;
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

fs::path hf_origin(const plan::RunSpec& run) {
  std::vector<fs::path> candidates;
  if (!run.checkpoint.initial.empty()) {
    candidates.push_back(run.checkpoint.initial);
    try {
      candidates.push_back(find_weights(run.checkpoint.initial).folder / companion_folder);
    } catch (const ConfigError&) {  // said by whoever reads the weights
    }
  }
  if (!run.model_origin.empty()) {
    candidates.push_back(run.model_origin);
    if (run.model_origin.filename() == config_file) candidates.push_back(run.model_origin.parent_path());
  }
  for (const fs::path& folder : candidates)
    if (fs::is_regular_file(folder / config_file)) return folder;
  return {};
}

std::string write_companions(const fs::path& folder, const plan::RunSpec& run) {
  fs::create_directories(folder);
  const fs::path origin = hf_origin(run);
  ordered_json config = origin.empty() ? ordered_json::object() : read_config(origin / config_file);
  const std::int64_t named = config.contains(longest_key) && config[longest_key].is_number_integer() ? config[longest_key].get<std::int64_t>() : 0;
  const std::int64_t longest = std::max(named, run.batch.sequence_length);
  config[longest_key] = longest;

  std::string note;
  std::optional<HfTokenizer> tokenizer;
  if (!run.data.train.empty() && run.data.train[0].prefix != "random") {
    try {
      tokenizer = tokenizer_of_data(run.data.train[0].prefix);
    } catch (const ConfigError& error) {
      note = error.what();
    }
  }
  const std::vector<fs::path> of_origin = origin.empty() ? std::vector<fs::path>() : tokenizer_files_in(origin);
  std::optional<SpecialIds> ids;
  bool origins_tokenizer = !tokenizer;
  if (tokenizer) {
    std::string about;
    ids = write_tokenizer(*tokenizer, folder, longest, about);
    if (!about.empty()) note = about;
    origins_tokenizer = !origin.empty() && same_file(folder / "tokenizer.json", origin / "tokenizer.json");
  }
  if (origins_tokenizer)
    for (const fs::path& file : of_origin)
      if (!fs::exists(folder / file.filename()) || !tokenizer) fs::copy_file(file, folder / file.filename(), fs::copy_options::overwrite_existing);
  // An imported model's own ids say more (several ends of text) where the tokenizer is its own.
  const bool has_ids = config.contains(id_keys[0].first) && !config[id_keys[0].first].is_null();
  if (ids && !(origins_tokenizer && has_ids)) set_ids(config, *ids);
  if (ids && !fs::exists(folder / generation_file)) write_generation_config(folder, *ids);
  write_json(folder / config_file, config);
  return note;
}

void check_companions(const fs::path& folder) {
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || (name != config_file && !is_tokenizer_file(name)))
      throw ConfigError({.file = entry.path().string(),
                         .allowed = "no run has written it, and a run that starts writes its tokenizer into this folder: move it away, "
                                    "or name another folder of the run"});
  }
}

void remove_companions(const fs::path& folder) {
  for (const fs::path& file : tokenizer_files_in(folder)) fs::remove(file);
  fs::remove(folder / config_file);
  std::error_code not_empty;
  fs::remove(folder, not_empty);
}

std::string replace_tokenizer(const fs::path& folder, const HfTokenizer& tokenizer) {
  fs::create_directories(folder);
  for (const fs::path& file : tokenizer_files_in(folder)) fs::remove(file);
  ordered_json config = read_config(folder / config_file);
  const std::int64_t longest = config.contains(longest_key) && config[longest_key].is_number_integer() ? config[longest_key].get<std::int64_t>() : 0;
  std::string note;
  const SpecialIds ids = write_tokenizer(tokenizer, folder, longest, note);
  set_ids(config, ids);
  if (!fs::exists(folder / generation_file)) write_generation_config(folder, ids);
  write_json(folder / config_file, config);
  return note;
}

ordered_json merged_config(const nlohmann::json& ours, const fs::path& companions) {
  ordered_json config = read_config(companions / config_file);
  const auto without_more = [&](const std::string& key) {
    return key == longest_key || std::ranges::any_of(id_keys, [&](const auto& entry) { return key == entry.first; });
  };
  if (config.contains(type_key) && config[type_key] == ours.at(type_key)) {
    if (same_model(config, ours)) {
      for (const char* key : {"architectures", "torch_dtype", "dtype"})
        if (ours.contains(key)) config[key] = ours.at(key);
      return config;
    }
    for (const auto& [key, value] : ours.items())
      if (!config.contains(key) || !without_more(key)) config[key] = value;
    return config;
  }
  // No import, or another family's: only what is no part of the model.
  ordered_json out = ours;
  for (const auto& [key, value] : config.items())
    if (without_more(key)) out[key] = value;
  return out;
}

}  // namespace trireme::train
