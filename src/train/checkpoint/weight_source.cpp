#include "train/checkpoint/weight_source.h"

#include <ATen/ATen.h>

#include "base/errors.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/hf_folder.h"

namespace trireme::train {

namespace {

namespace fs = std::filesystem;
}  // namespace

fs::path find_weights(const fs::path& path, const CheckpointChoice& choice) {
  const auto fail = [&](std::string what) {
    throw ConfigError({.key = choice.key, .value = path.string(), .allowed = std::move(what)});
  };
  const bool chooses = choice.step || choice.best;
  const bool one = fs::exists(path / index_file) || fs::exists(path / "config.json");
  if (one && chooses) fail("is one folder of weights: a step can be chosen in a run's folder or a folder of checkpoints");
  if (one) return path;
  if (!fs::exists(path)) fail("no such folder");
  for (const fs::path& folder : {path, path / "checkpoints"}) {
    if (!list_checkpoints(folder).empty()) return choose_checkpoint(folder, choice, path.string()).path;
  }
  if (fs::exists(path / "plan.json") || fs::exists(path / "run.toml")) fail("is the folder of a run that has no complete checkpoint yet");
  fail("holds no weights: expected a checkpoint (with index.json), a folder of checkpoints, a run's folder, or a Hugging Face "
       "folder (with config.json and safetensors)");
  return {};
}

std::unique_ptr<WeightSource> open_weights(const fs::path& path, const CheckpointChoice& choice) {
  const fs::path found = find_weights(path, choice);
  if (fs::exists(found / index_file)) return std::make_unique<CheckpointReader>(found);
  return std::make_unique<HfFolder>(found);
}

void check_weights(const WeightSource& source, const model::ModelSpec& model) {
  check_same_model(source.model(), model, "checkpoint.initial");
  for (const model::ParameterSpec& parameter : model::parameters(model)) source.check(parameter);
}

void load_weights(const WeightSource& source, const model::ModelSpec& model,
                  const std::vector<nn::Parameter*>& parameters) {
  check_same_model(source.model(), model, "checkpoint.initial");
  at::NoGradGuard no_grad;
  for (const nn::Parameter* parameter : parameters) {
    for (const nn::Piece& piece : parameter->pieces) {
      parameter->piece_value(piece).detach().copy_(source.read(piece.spec));
    }
  }
}

}  // namespace trireme::train
