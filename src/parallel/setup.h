// Everything that one rank of a run needs to execute steps, built from the run, the plan and the rank.
#pragma once
#include <memory>

#include "nn/model.h"
#include "parallel/emulated_runner.h"
#include "parallel/executor.h"
#include "parallel/gradient_buckets.h"
#include "parallel/tensor_runner.h"

namespace trireme::parallel {

// What a rank hosts: the layers and ends of its stage, and the ep_index-th of ep equal contiguous blocks of experts.
nn::Hosted hosted_by(const plan::RunSpec& run, const plan::Plan& plan, int rank);

// The model's part of a rank, not yet initialised, on the run's device and in its dtype. local_rank chooses the
// accelerator.
std::unique_ptr<nn::Model> make_model(const plan::RunSpec& run, const plan::Plan& plan, int rank, int local_rank = 0);

// A plan bound to a rank's model: executes its steps. Whatever it is given by reference outlives it. Construction is
// collective over the world: it connects the groups of the plan's messages.
class StageRuntime {
 public:
  // A training plan needs buckets (bound to the model); a forward-only one gets null.
  StageRuntime(const plan::RunSpec& run, const plan::Plan& plan, comm::Communicator& communicator, int rank,
               nn::Model& model, GradientBuckets* buckets, StepHooks hooks);
  // The same messages without a model.
  StageRuntime(const plan::RunSpec& run, const plan::Plan& plan, comm::Communicator& communicator, int rank,
               EmulatedWork work);

  StepResult step() { return executor_->run(); }

 private:
  void make_executor(const StageContext& context);

  std::unique_ptr<SegmentRunner> runner_;
  std::unique_ptr<Executor> executor_;
};

// The buckets of a rank's stage, bound to its model.
std::unique_ptr<GradientBuckets> make_buckets(const plan::RunSpec& run, const plan::Plan& plan, int rank,
                                              nn::Model& model);

}  // namespace trireme::parallel
