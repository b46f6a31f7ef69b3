// Writes a checkpoint as a folder that transformers loads: config.json, generation_config.json is left to the user, and
// model.safetensors, or above a size limit model-00001-of-0000N.safetensors with their index. Works on the files alone:
// no model is built, and one tensor at a time is in memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include <ATen/core/Tensor.h>

#include "model/model_spec.h"
#include "train/checkpoint/weight_source.h"

namespace trireme::train {

struct HfExportOptions {
  std::filesystem::path folder;         // of the result; made, and its files replaced
  std::optional<model::Family> family;  // none: the model's own, or the one that can express it
  std::optional<at::ScalarType> dtype;  // none: as stored
  std::int64_t max_shard_bytes = std::int64_t{5} * 1000 * 1000 * 1000;
};

// ConfigError (model.family, or the key that no family expresses) before anything is written.
void export_hf(const WeightSource& source, const HfExportOptions& options);

}  // namespace trireme::train
