// Which checkpoints may be trusted after a bad step. The weights of step c are first judged in step c + 1: a checkpoint of
// step c is good where that step was. So the one written right before the first bad step is none.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "train/checkpoint/checkpoint_folder.h"

namespace trireme::train {

// The newest complete one that is good; none where there is none.
std::optional<CheckpointInfo> last_good_checkpoint(const std::filesystem::path& folder, std::int64_t first_bad_step);

// "the last good checkpoint is runs/a/checkpoints/step-00000040 (that of step 44 holds the weights that step 45 began with)"
std::string describe_good_checkpoint(const std::filesystem::path& folder, std::int64_t first_bad_step);

// Removes the complete checkpoints of steps behind `step`, the newest first: a run that has gone back there takes those steps
// anew. best.json, where it is there, names the best of the others.
void remove_checkpoints_behind(const std::filesystem::path& folder, std::int64_t step);

}  // namespace trireme::train
