// What a path on the command line or in a run file means as weights.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint_choice.h"

namespace trireme::train {

struct FoundWeights {
  std::filesystem::path folder;       // a checkpoint, or a Hugging Face folder
  bool hugging_face = false;
  std::optional<std::int64_t> step;   // of a checkpoint that was chosen among others
  std::optional<std::filesystem::path> run_file;  // of the run whose checkpoint it is
  bool is_run = false;                // the run was named: its folder or its file, not its checkpoint
};

// A checkpoint (holds index.json), a folder of checkpoints, a run's folder (holds checkpoints/), a run's file (RUN.toml, read
// with `overrides`) or a Hugging Face folder (holds config.json). ConfigError of `choice.key` for anything else, and for a
// choice that is not there: it names the steps that are.
FoundWeights find_weights(const std::filesystem::path& path, const CheckpointChoice& choice = {},
                          const std::vector<std::string>& overrides = {});

}  // namespace trireme::train
