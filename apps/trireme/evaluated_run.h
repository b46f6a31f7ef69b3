// What `trireme evaluate` is asked for, as a run that only evaluates.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "plan/run_spec.h"

namespace trireme::apps {

struct EvaluateOptions {
  std::string source;                // a run's folder or file, a checkpoint, or a Hugging Face folder
  std::vector<std::string> data;     // PREFIX or PREFIX=NAME
  std::string sequences = "all";     // of each set: a number, or "all"
  std::vector<std::string> set;      // overrides of the run's keys
  std::int64_t step = 0;             // of a run's checkpoint; 0: the newest, or with `best` the one with the lowest evaluation loss
  bool best = false;
  std::int64_t sequence_length = 0;  // 0: the run's, else 1,024
  std::int64_t micro_batch = 0;      // sequences that a rank computes at once; 0: the run's, else 1
  int ranks = 0;                     // 0: as the run's layout says, else 1
  bool json = false;
};

struct EvaluatedRun {
  plan::RunSpec run;              // data.valid, train.eval_sequences, layout and batch are those of the evaluation
  std::filesystem::path weights;  // a checkpoint or a Hugging Face folder
  int ranks = 1;
};

// ConfigError for a source that is none, sets that are given wrongly, and what does not fit together. `launched_ranks`:
// of a launcher; 0: none.
EvaluatedRun evaluated_run(const EvaluateOptions& options, int launched_ranks);

}  // namespace trireme::apps
