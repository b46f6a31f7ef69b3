#include "train/checkpoint/weight_source.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "base/errors.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/hf_folder.h"

namespace trireme::train {

namespace {

namespace fs = std::filesystem;
}  // namespace

std::unique_ptr<WeightSource> open_weights(const fs::path& path, const CheckpointChoice& choice) {
  const fs::path found = find_weights(path, choice).folder;
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
