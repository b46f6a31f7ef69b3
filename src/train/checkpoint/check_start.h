// Before any rank starts: the weights that the run would begin with.
#pragma once
#include <optional>

#include "plan/run_spec.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace trireme::train {

// The checkpoint to go on from, else checkpoint.initial: its model is the run's, its files are all there and whole by their
// headers, and hold every tensor. ConfigError with the file and the tensor.
void check_start(const plan::RunSpec& run, const std::optional<CheckpointInfo>& resumed);

}  // namespace trireme::train
