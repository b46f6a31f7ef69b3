// Loss on held-out sequences, by a forward-only plan: the same number of equal micro-batches on every data rank, the
// sequences behind the last being padding of weight 0.
#pragma once
#include <memory>

#include "parallel/setup.h"
#include "train/data/sequence_source.h"

namespace trireme::train {

class Evaluation {
 public:
  // Null members never: make one only where train.eval_sequences > 0. All references outlive it.
  Evaluation(const plan::RunSpec& run, const plan::Mesh& mesh, comm::Communicator& communicator, int rank,
             nn::Model& model);

  // Mean cross-entropy (nats a target), the same on every rank. Collective over the world.
  double run();

 private:
  plan::Plan plan_;
  std::unique_ptr<SequenceSource> source_;
  std::unique_ptr<parallel::StageRuntime> runtime_;
};

// The same sequences under a bigram model of the training text (train/data/bigram.h): what a language model must beat.
// Rank 0 only; a second for 40 MB of bytes. Negative where the training data is "random".
double bigram_loss(const plan::RunSpec& run);

}  // namespace trireme::train
