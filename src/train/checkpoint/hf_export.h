// Writes a checkpoint as a folder that transformers loads: config.json, the tokenizer's files and generation_config.json, and
// model.safetensors, or above a size limit model-00001-of-0000N.safetensors with their index. Works on the files alone:
// no model is built, and one tensor at a time is in memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model_spec.h"
#include "train/checkpoint/weight_source.h"

namespace trireme::train {

struct HfExportOptions {
  std::filesystem::path folder;         // of the result; see prepare_export_folder
  std::filesystem::path companions;     // hf_companions.h; empty or absent: no tokenizer, and config.json as the model says
  bool overwrite = false;
  std::optional<model::Family> family;  // none: the model's own, or the one that can express it
  std::optional<at::ScalarType> dtype;  // none: as stored
  std::int64_t max_shard_bytes = std::int64_t{5} * 1000 * 1000 * 1000;
};

// Returns the names of the files. ConfigError (model.family, or the key that no family expresses; --to-hf) before anything is
// written.
std::vector<std::string> export_hf(const WeightSource& source, const HfExportOptions& options);

}  // namespace trireme::train
