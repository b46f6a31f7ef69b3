// Loss on held-out sequences, by forward-only plans: the same number of equal micro-batches on every data rank, the
// sequences behind the last being padding of weight 0.
//
// An evaluation goes in passes of a bounded number of micro-batches, so that its plan and its memory don't grow with
// the number of sequences, its progress is seen, and a stop is heard between passes.
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/setup.h"
#include "train/data/evaluation_data.h"

namespace trireme::train {

struct SetLoss {
  std::string name;
  double loss = std::numeric_limits<double>::quiet_NaN();  // nats a target, weighted; not a number without a target
  double loss_sum = 0, weight = 0;                         // its numerator and denominator
  std::int64_t sequences = 0;
};

struct EvaluationResult {
  bool complete = false;                                   // false: a stop cut it short, and there is no loss
  bool stop = false;                                       // a rank wants to stop
  double loss = std::numeric_limits<double>::quiet_NaN();  // mean of the sets' losses by their weights
  std::vector<SetLoss> sets;
};

struct EvaluationOptions {
  std::function<bool()> stop_requested;                // asked once a pass; agreed by all ranks
  std::function<void(const std::string&)> on_message;  // progress, where it takes more than a few seconds
  int micro_batches = 16;                              // of a pass, at most; or 4 a stage, where there are more
};

class Evaluation {
 public:
  // All references outlive it. `sets` is not empty.
  Evaluation(const plan::RunSpec& run, std::vector<EvaluationSet> sets, const plan::Mesh& mesh,
             comm::Communicator& communicator, int rank, nn::Model& model, EvaluationOptions options = {});

  // The same on every rank. Collective over the world.
  EvaluationResult run();

  const std::vector<EvaluationSet>& sets() const { return sets_; }
  int num_passes_run() const { return num_passes_run_; }  // since it was made

 private:
  struct Pass {
    plan::Plan plan;
    std::unique_ptr<parallel::StageRuntime> runtime;
  };
  Pass& pass_of(int micro_batches);
  parallel::StepSums run_pass(const SequenceSource& source, std::int64_t first, int micro_batches);

  const plan::RunSpec& run_;
  std::vector<EvaluationSet> sets_;
  plan::Mesh mesh_;
  comm::Communicator& communicator_;
  int rank_;
  nn::Model& model_;
  EvaluationOptions options_;
  int most_micro_batches_;
  std::map<int, Pass> passes_;  // by number of micro-batches: a full one, and the rest of each set
  // Of the pass that runs.
  const SequenceSource* source_ = nullptr;
  std::int64_t first_ = 0;
  int num_passes_run_ = 0;
};

// Sum of the losses by the sets' weights over the sum of the weights.
double mean_of_sets(const std::vector<EvaluationSet>& sets, const std::vector<double>& losses);

// The same sequences under a bigram model of the training text (train/data/bigram.h): what a language model must beat.
// Rank 0 only; a second for 40 MB of bytes. Negative where the training data is "random" or a blend, and where there
// are more than most_bigram_tokens to evaluate.
double bigram_loss(const plan::RunSpec& run);

}  // namespace trireme::train
