#include "train/checkpoint/check_start.h"

#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/training_tensors.h"

namespace trireme::train {

void check_start(const plan::RunSpec& run, const std::optional<CheckpointInfo>& resumed) {
  if (resumed) {
    const CheckpointReader reader(resumed->path);
    reader.check_model(run.model);
    reader.check_files();
    check_tensors(reader, run);
  } else if (!run.checkpoint.initial.empty()) {
    check_weights(*open_weights(run.checkpoint.initial, {.key = "checkpoint.initial"}), run.model);
  }
}

}  // namespace trireme::train
