// What `trireme evaluate` prints: loss, perplexity and bits per byte of each set and of all together.
#pragma once
#include <vector>

#include "train/evaluation.h"
#include "trireme/evaluated_run.h"

namespace trireme::apps {

// On standard output, as a table or as one JSON object. Reads the sets once more to count their text.
void print_evaluation(const EvaluatedRun& evaluated, const std::vector<train::EvaluationSet>& sets,
                      const train::EvaluationResult& result, bool json);

}  // namespace trireme::apps
