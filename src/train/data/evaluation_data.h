// The held-out sequences of a run: data.valid, each set for itself.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "train/data/data_set.h"

namespace trireme::train {

struct EvaluationSet {
  std::string name, prefix;
  double weight = 1;  // share of this set's loss in that of all
  std::unique_ptr<SequenceSource> source;
  std::int64_t all = 0;  // sequences in the file, of which the source has the first; INT64_MAX: random
};

// The first train.eval_sequences sequences of each set, or what it has. Empty where train.eval_sequences is 0.
// Checks files, vocabulary and loss weights. ConfigError for all of a random set, which has no end. `key`: where the
// user named the sets, for errors.
std::vector<EvaluationSet> open_evaluation(const plan::RunSpec& run, const char* key = "data.valid");

// "data.valid = valid: holds 38 sequences of 256 tokens ..." for each set that has fewer than the run asks for.
std::vector<std::string> clamped_sets(const plan::RunSpec& run, const std::vector<EvaluationSet>& sets);

}  // namespace trireme::train
