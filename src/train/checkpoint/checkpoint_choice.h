// Which checkpoint of a folder of several is meant.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "train/checkpoint/checkpoint_folder.h"

namespace trireme::train {

struct CheckpointChoice {
  std::optional<std::int64_t> step;  // none: the newest
  bool best = false;                 // the one with the lowest evaluation loss
  std::string key;                   // of the option or key that named the path, for errors
};

// Of `folder`, which the user named as `named`. ConfigError where it holds no complete checkpoint, or not the one that is
// wanted: it names the steps that there are.
CheckpointInfo choose_checkpoint(const std::filesystem::path& folder, const CheckpointChoice& choice,
                                 const std::string& named);

}  // namespace trireme::train
