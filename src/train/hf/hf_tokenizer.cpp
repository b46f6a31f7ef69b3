#include "train/hf/hf_tokenizer.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/regular_file.h"
#include "train/hf/tokenizer_json.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char *json_file = "tokenizer.json", *config_file = "tokenizer_config.json", *model_file_name = "tokenizer.model";
constexpr std::array tokenizer_file_names = {
    json_file,    model_file_name, config_file, "special_tokens_map.json", "added_tokens.json",  "vocab.json",
    "merges.txt", "vocab.txt",     "spiece.model", "chat_template.jinja",     "chat_template.json", "generation_config.json"};

ordered_json read_json(const fs::path& path) {
  std::ifstream in = open_regular(path);
  ordered_json json = ordered_json::parse(in, nullptr, false);
  if (!json.is_object()) throw ConfigError({.file = path.string(), .allowed = "missing, or not a JSON object"});
  return json;
}

void write_json(const fs::path& path, const ordered_json& json) { write_file_atomically(path, json.dump(2) + "\n"); }

void copy_as(const fs::path& from, const fs::path& to) { fs::copy_file(from, to, fs::copy_options::overwrite_existing); }

// tokenizer_class: the file is taken as it is. Without it AutoTokenizer takes the class of the model's family, which
// changes how text is cut.
ordered_json generic_config(std::int64_t longest_sequence) {
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (longest_sequence > 0) config["model_max_length"] = longest_sequence;
  return config;
}

// "eos_token": "</s>", or {"content": "</s>", ...}.
std::string text_of(const ordered_json& config, const char* key) {
  if (!config.contains(key)) return {};
  const ordered_json& value = config[key];
  if (value.is_string()) return value.get<std::string>();
  return value.is_object() && value.contains("content") && value["content"].is_string() ? value["content"].get<std::string>() : "";
}

// Calls `take` with text and id of each token that the file names until it returns true. What has another form is no token:
// the file is transformers' to read.
template <class Take>
void find_token(const ordered_json& tokenizer, const Take& take) {
  const auto is_id = [](const ordered_json& id) {
    return id.is_number_integer() && id.get<double>() >= 0 && id.get<double>() <= std::numeric_limits<std::int32_t>::max();
  };
  if (tokenizer.contains("added_tokens") && tokenizer["added_tokens"].is_array())
    for (const ordered_json& token : tokenizer["added_tokens"])
      if (token.is_object() && token.contains("content") && token["content"].is_string() && token.contains("id") && is_id(token["id"]) &&
          take(token["content"].get_ref<const std::string&>(), token["id"].get<std::int32_t>()))
        return;
  if (!tokenizer.contains("model") || !tokenizer["model"].is_object() || !tokenizer["model"].contains("vocab")) return;
  const ordered_json& vocabulary = tokenizer["model"]["vocab"];
  if (!vocabulary.is_object()) return;
  for (auto at = vocabulary.begin(); at != vocabulary.end(); ++at)
    if (is_id(*at) && take(at.key(), at->get<std::int32_t>())) return;
}

std::int32_t id_of(const ordered_json& tokenizer, const std::string& text) {
  std::int32_t out = -1;
  if (text.empty()) return out;
  find_token(tokenizer, [&](const std::string& found, std::int32_t id) { return found == text ? (out = id, true) : false; });
  return out;
}

std::string text_of_id(const ordered_json& tokenizer, std::int32_t id) {
  std::string out;
  find_token(tokenizer, [&](const std::string& text, std::int32_t found) { return found == id ? (out = text, true) : false; });
  return out;
}

SpecialIds write_bytes(const fs::path& folder, std::int64_t longest_sequence) {
  write_json(folder / json_file, byte_tokenizer_json());
  ordered_json config = generic_config(longest_sequence);
  config["eos_token"] = byte_eos, config["bos_token"] = byte_bos, config["pad_token"] = byte_pad;
  write_json(folder / config_file, config);
  return {.eos = 256, .bos = 257, .pad = 258};
}

SpecialIds write_sentencepiece(const HfTokenizer& tokenizer, const fs::path& folder, std::int64_t longest_sequence,
                               std::string& note) {
  const SentencePieceFile model = read_sentencepiece_file(tokenizer.file);
  copy_as(tokenizer.file, folder / model_file_name);
  ordered_json config = generic_config(longest_sequence);
  const SentencePieceJson written = sentencepiece_tokenizer_json(model);
  if (written.why_not.empty()) {
    write_json(folder / json_file, written.json);
  } else {
    note = fmt::format("{} is copied as {}, and no {} is written: {}. transformers reads it with the package sentencepiece",
                       tokenizer.file.string(), model_file_name, json_file, written.why_not);
    config["tokenizer_class"] = "LlamaTokenizer";
    config["legacy"] = false, config["add_bos_token"] = false, config["add_eos_token"] = false;
  }
  SpecialIds ids;
  const auto add = [&](const char* key, const std::string& piece, std::int32_t& id) {
    const std::int32_t found = model.id_of(piece);
    if (found < 0) return;
    config[key] = piece;
    id = found;
  };
  std::int32_t unk = -1;
  add("unk_token", model.unk_piece, unk);
  add("bos_token", model.bos_piece, ids.bos);
  add("eos_token", model.eos_piece, ids.eos);
  add("pad_token", model.pad_piece, ids.pad);
  write_json(folder / config_file, config);
  return ids;
}

SpecialIds write_huggingface(const HfTokenizer& tokenizer, const fs::path& folder, std::int64_t longest_sequence) {
  const bool is_folder = fs::is_directory(tokenizer.file);
  if (is_folder)
    for (const fs::path& file : tokenizer_files_in(tokenizer.file)) copy_as(file, folder / file.filename());
  else
    copy_as(tokenizer.file, folder / json_file);
  const ordered_json json = read_json(folder / json_file);
  ordered_json config = fs::exists(folder / config_file) ? read_json(folder / config_file) : generic_config(longest_sequence);
  if (!fs::exists(folder / config_file) || text_of(config, "eos_token").empty()) {
    const std::string eos = text_of_id(json, tokenizer.eos);
    if (!eos.empty()) config["eos_token"] = eos;
    write_json(folder / config_file, config);
  }
  SpecialIds ids{.eos = id_of(json, text_of(config, "eos_token")),
                 .bos = id_of(json, text_of(config, "bos_token")),
                 .pad = id_of(json, text_of(config, "pad_token"))};
  if (tokenizer.eos >= 0) ids.eos = tokenizer.eos;
  return ids;
}

}  // namespace

std::optional<HfTokenizer> tokenizer_of_data(const std::string& prefix) {
  const fs::path meta = prefix + ".meta.json";
  if (!fs::exists(meta)) return std::nullopt;
  const ordered_json json = read_json(meta);
  const auto text = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  HfTokenizer out;
  if (json.contains("eos") && json["eos"].is_number_integer()) out.eos = json["eos"].get<std::int32_t>();
  const std::string kind = text("tokenizer");
  if (kind == "byte") return out;
  if (kind != "sentencepiece" && kind != "huggingface") return std::nullopt;
  out.kind = kind == "sentencepiece" ? HfTokenizer::Kind::sentencepiece : HfTokenizer::Kind::huggingface;
  // PREFIX.tokenizer/ holds a Hugging Face tokenizer's files.
  const std::string named = text("tokenizer_file");
  out.file = named.empty() ? fs::path(prefix + ".tokenizer") : meta.parent_path() / named;
  if (!fs::exists(out.file)) {
    throw ConfigError({.file = meta.string(), .key = "tokenizer_file", .value = out.file.filename().string(),
                       .allowed = "no such file beside the data: put it there (`trireme data` writes it), or name the tokenizer "
                                  "with --tokenizer when the model is converted"});
  }
  // One of the files of a folder stands for the folder.
  if (out.kind == HfTokenizer::Kind::huggingface && out.file.filename() == json_file) out.file = out.file.parent_path();
  return out;
}

HfTokenizer tokenizer_named(const std::string& name) {
  if (name == "byte") return {};
  const fs::path path = name;
  if (path.extension() == ".model" && fs::is_regular_file(path)) return {.kind = HfTokenizer::Kind::sentencepiece, .file = path};
  if (path.extension() == ".json" && fs::is_regular_file(path)) return {.kind = HfTokenizer::Kind::huggingface, .file = path};
  if (fs::exists(path / json_file)) return {.kind = HfTokenizer::Kind::huggingface, .file = path};
  if (fs::exists(path / model_file_name)) return {.kind = HfTokenizer::Kind::sentencepiece, .file = path / model_file_name};
  throw ConfigError({.key = "--tokenizer", .value = name,
                     .allowed = "must be \"byte\", the path of a SentencePiece .model, of a tokenizer.json, or of a folder that "
                                "holds one"});
}

bool is_tokenizer_file(const std::string& name) {
  return std::find(tokenizer_file_names.begin(), tokenizer_file_names.end(), name) != tokenizer_file_names.end();
}

std::vector<fs::path> tokenizer_files_in(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const char* name : tokenizer_file_names)
    if (fs::is_regular_file(folder / name)) out.push_back(folder / name);
  return out;
}

SpecialIds write_tokenizer(const HfTokenizer& tokenizer, const fs::path& folder, std::int64_t longest_sequence, std::string& note) {
  fs::create_directories(folder);
  switch (tokenizer.kind) {
    case HfTokenizer::Kind::byte: return write_bytes(folder, longest_sequence);
    case HfTokenizer::Kind::sentencepiece: return write_sentencepiece(tokenizer, folder, longest_sequence, note);
    case HfTokenizer::Kind::huggingface: return write_huggingface(tokenizer, folder, longest_sequence);
  }
  TRIREME_CHECK(false);
  return {};
}

}  // namespace trireme::train
