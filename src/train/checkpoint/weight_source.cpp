#include "train/checkpoint/weight_source.h"

#include <ATen/ATen.h>

#include "base/errors.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/hf_folder.h"

namespace trireme::train {

std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path) {
  if (std::filesystem::exists(path / index_file)) return std::make_unique<CheckpointReader>(path);
  if (std::filesystem::exists(path / "config.json")) return std::make_unique<HfFolder>(path);
  if (const auto latest = latest_checkpoint(path)) return std::make_unique<CheckpointReader>(latest->path);
  throw ConfigError({.key = "checkpoint.initial",
                     .value = path.string(),
                     .allowed =
                         "a checkpoint folder (with index.json), a folder of checkpoints, or a Hugging Face folder "
                         "(with config.json and safetensors)"});
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
