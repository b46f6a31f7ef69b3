// One rank's training run: model, optimizer, data, evaluation, checkpoints, over the plan that all ranks share.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/util/intrusive_ptr.h>

#include "comm/group.h"
#include "parallel/step.h"
#include "plan/plan.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/metrics/step_metrics.h"
#include "train/run_folder/run_identity.h"

namespace c10d {
class Store;
}

namespace trireme::train {

class TrainingData;

enum class Resume {
  never,   // a run folder that holds checkpoints is refused
  if_any,  // from the newest checkpoint where there is one
  must,    // ConfigError where there is none
};

// The checkpoint of the run's folder that `resume` means; none: a fresh start. ConfigError where there is none and one must
// be, or one that may not be trained over.
std::optional<CheckpointInfo> checkpoint_to_resume(const plan::RunSpec& run, Resume resume);

// ConfigError where the checkpoint's state can't be read, or the run's model, seed or data are not those of the checkpoint
// (train/data/data_position.h says what may change), which the trainer refuses as well: before any rank runs. `data` is the
// run's, and of no use afterwards.
void check_resume(const plan::RunSpec& run, const CheckpointInfo& checkpoint, TrainingData& data);

struct TrainerOptions {
  int rank = 0;
  int local_rank = 0;
  Resume resume = Resume::never;
  RunIdentity identity;                   // goes into checkpoints
  std::function<void()> check_folder;     // rank 0: throws where another run has taken the run's folder
  double predicted_step_s = 0;            // printed beside what was measured; 0: no prediction
  std::function<bool()> stop_requested;  // asked once a step; agreed by all ranks in the step's last reduction
  std::function<void(const char*)> stop_comes_after;  // what a stop that is asked for now waits for; a text that stays
  std::function<std::string()> in_vain;  // why no rank may be waited for any more (one is dead); empty: all live
  // Rank 0 only: behind which step the run goes on, before its first step and where it goes back to a checkpoint.
  std::function<void(std::int64_t step)> on_place;
  // Rank 0 only: every logged step, and every evaluation (metrics with eval_loss), the bigram baseline once.
  std::function<void(const StepMetrics&)> on_metrics;
  std::function<void(const std::string&)> on_message;  // "resumed from step 40", "saved step 60"
  // Every rank, every step.
  std::function<void(std::int64_t step, const parallel::StepResult&)> on_step;
};

struct TrainOutcome {
  std::int64_t last_step = 0;
  bool stopped_early = false;  // a stop signal, agreed by all ranks; its step is saved
  std::optional<double> eval_loss;  // of the last evaluation, which was behind eval_step
  std::int64_t eval_step = 0;
  double bigram_loss = -1;     // rank 0; negative: not computed
  // Highest of this rank's tensors in a step: while no checkpoint was being written, and while one was (0: never).
  double peak_bytes = 0, checkpoint_peak_bytes = 0;
  double checkpoint_copy_bytes = 0;  // the largest host copy of one
};

class Trainer {
 public:
  // Collective: hashes of the plan are compared over the world before anything else. References outlive the trainer.
  Trainer(const plan::RunSpec& run, const plan::Plan& plan, comm::Communicator& communicator,
          c10::intrusive_ptr<c10d::Store> store, TrainerOptions options);
  ~Trainer();

  TrainOutcome run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::train
