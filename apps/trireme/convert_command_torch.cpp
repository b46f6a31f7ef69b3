#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/regular_file.h"
#include "parallel/stage_context.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/hf_export.h"
#include "train/hf/hf_companions.h"
#include "trireme/commands.h"
#include "trireme/memory_failure.h"
#include "trireme/positive_number.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string source, to_hf, family, dtype, tokenizer;
  double shard_GB = 5;
  std::int64_t step = -1;
  bool best = false, overwrite = false, json = false;
};

std::optional<model::Family> family_from(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "mixtral") return model::Family::mixtral;
  if (name == "qwen3_moe") return model::Family::qwen3_moe;
  throw ConfigError({.key = "--family", .value = name, .allowed = "mixtral or qwen3_moe"});
}

// A folder that ends with the command.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "trireme-convert-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), "cannot make " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void say(const std::string& text) {
  if (!text.empty()) fmt::print(stderr, "{}\n", text);
}

// What the export holds beside the weights: of the checkpoint, of the Hugging Face folder, or, for a checkpoint of before,
// of the run's file.
void collect_companions(const fs::path& weights, const fs::path& into) {
  const fs::path own = fs::exists(weights / train::index_file) ? weights / train::companion_folder : weights;
  if (fs::exists(own / "config.json")) {
    fs::create_directories(into);
    for (const fs::path& file : train::tokenizer_files_in(own)) fs::copy_file(file, into / file.filename());
    fs::copy_file(own / "config.json", into / "config.json");
    return;
  }
  const fs::path run = fs::absolute(weights / "").lexically_normal().parent_path().parent_path().parent_path() / "run.toml";
  if (!fs::exists(run)) return;
  try {
    say(train::write_companions(into, plan::load_run(run)));
  } catch (const ConfigError& error) {
    say(fmt::format("the run's tokenizer is not known: {}", error.what()));
  }
}

// The highest id of a tokenizer.json, and one; 0 where there is no such file.
std::int64_t number_of_tokens(const fs::path& file) {
  std::ifstream in = open_regular(file);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  std::int64_t highest = -1;
  const auto take = [&](const nlohmann::json& id) {
    if (id.is_number_integer()) highest = std::max(highest, id.get<std::int64_t>());
  };
  const auto member = [](const nlohmann::json& object, const char* key) {
    return object.is_object() && object.contains(key) ? object[key] : nlohmann::json();
  };
  const nlohmann::json vocabulary = member(member(json, "model"), "vocab");
  if (vocabulary.is_array()) highest = static_cast<std::int64_t>(vocabulary.size()) - 1;
  if (vocabulary.is_object())
    for (const auto& [token, id] : vocabulary.items()) take(id);
  const nlohmann::json added = member(json, "added_tokens");
  if (added.is_array())
    for (const auto& token : added) take(member(token, "id"));
  return highest + 1;
}

void run(const Options& o) {
  if (o.to_hf.empty()) throw ConfigError({.key = "--to-hf", .allowed = "the name of a folder is needed"});
  train::HfExportOptions options{.folder = o.to_hf, .overwrite = o.overwrite, .family = family_from(o.family)};
  if (!o.dtype.empty()) options.dtype = parallel::to_scalar_type(dtype_from_name(o.dtype));
  options.max_shard_bytes = static_cast<std::int64_t>(o.shard_GB * 1e9);
  std::optional<train::HfTokenizer> tokenizer;
  if (!o.tokenizer.empty()) tokenizer = train::tokenizer_named(o.tokenizer);
  train::CheckpointChoice choice{.best = o.best, .key = "SOURCE"};
  if (o.step >= 0) choice.step = o.step;
  const fs::path folder = train::find_weights(o.source, choice).folder;
  if (fs::exists(o.to_hf) && fs::equivalent(folder, o.to_hf))
    throw ConfigError({.key = "--to-hf", .value = o.to_hf, .allowed = "is the folder that is read: name another"});
  const auto weights = train::open_weights(folder, {.key = choice.key});
  say(weights->note());

  const ScratchFolder scratch;
  options.companions = scratch.path() / train::companion_folder;
  collect_companions(folder, options.companions);
  if (tokenizer) {
    say(train::replace_tokenizer(options.companions, *tokenizer));
    const std::int64_t tokens = number_of_tokens(options.companions / "tokenizer.json"), known = weights->model().vocab_size;
    if (tokens > known)
      throw ConfigError({.key = "--tokenizer", .value = o.tokenizer,
                         .allowed = fmt::format("has {} tokens, and the model knows {}", tokens, known)});
  }
  const std::vector<std::string> files = train::export_hf(*weights, options);
  if (train::tokenizer_files_in(options.companions).empty())
    say("no tokenizer is known for this model, so the folder has none: give --tokenizer to write one");
  if (o.json)
    print_output("{}\n", nlohmann::ordered_json{{"source", folder.string()}, {"folder", o.to_hf}, {"files", files}}.dump());
  else
    print_output("wrote {} from {}\n", o.to_hf, folder.string());
}

}  // namespace

void add_convert_command(CLI::App& app, Context&) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand(
      "convert", "Write a checkpoint as a Hugging Face folder (to train from one, name it in checkpoint.initial)");
  c->add_option("source", options->source, "A run's folder or file, a folder of checkpoints or one of them, or a Hugging Face folder")->required();
  c->add_option("--to-hf", options->to_hf, "Folder to write: config.json, safetensors and the tokenizer")->required();
  CLI::Option* step = c->add_option("--step", options->step, "The checkpoint of this step (default: the newest)")
                          ->check(whole_number(0, largest_step));
  c->add_flag("--best", options->best, "The checkpoint with the lowest evaluation loss")->excludes(step);
  c->add_option("--tokenizer", options->tokenizer,
                "byte, a SentencePiece .model, a tokenizer.json or its folder (default: the one of the run's data)");
  c->add_flag("--overwrite", options->overwrite, "Replace files of the same names in a folder that Trireme has not written");
  c->add_option("--family", options->family, "mixtral or qwen3_moe (default: the one that can express the model)");
  c->add_option("--dtype", options->dtype, "float32, float64, bfloat16 or float16 (default: as stored)")
      ->check(CLI::IsMember({"float32", "float64", "bfloat16", "float16"}));
  c->add_option("--shard-GB", options->shard_GB, "Largest file")->capture_default_str()->check(positive_number());
  c->add_flag("--json", options->json, "Print one JSON object: the source, the folder and its files");
  c->callback([options] { tell_out_of_memory("convert", [&] { run(*options); }); });
}

}  // namespace trireme::apps
