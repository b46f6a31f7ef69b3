#include <fmt/format.h>

#include "base/errors.h"
#include "parallel/stage_context.h"
#include "train/checkpoint/hf_export.h"
#include "trireme/commands.h"
#include "trireme/positive_number.h"

namespace trireme::apps {

namespace {

struct Options {
  std::string source, to_hf, family, dtype;
  double shard_GB = 5;
};

std::optional<model::Family> family_from(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "mixtral") return model::Family::mixtral;
  if (name == "qwen3_moe") return model::Family::qwen3_moe;
  throw ConfigError({.key = "--family", .value = name, .allowed = "mixtral or qwen3_moe"});
}

void run(const Options& o) {
  train::HfExportOptions options{.folder = o.to_hf, .family = family_from(o.family)};
  if (!o.dtype.empty()) options.dtype = parallel::to_scalar_type(dtype_from_name(o.dtype));
  options.max_shard_bytes = static_cast<std::int64_t>(o.shard_GB * 1e9);
  train::export_hf(*train::open_weights(o.source), options);
  fmt::print("wrote {}\n", o.to_hf);
}

}  // namespace

void add_convert_command(CLI::App& app, Context&) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand(
      "convert", "Write a checkpoint as a Hugging Face folder (to train from one, name it in checkpoint.initial)");
  c->add_option("source", options->source, "A checkpoint, or a folder of them (the newest counts)")->required();
  c->add_option("--to-hf", options->to_hf, "Folder to write: config.json and safetensors")->required();
  c->add_option("--family", options->family, "mixtral or qwen3_moe (default: the one that can express the model)");
  c->add_option("--dtype", options->dtype, "float32, bfloat16, ... (default: as stored)");
  c->add_option("--shard-GB", options->shard_GB, "Largest file")->capture_default_str()->check(positive_number());
  c->callback([options] { run(*options); });
}

}  // namespace trireme::apps
