#include "train/data/evaluation_data.h"

#include "base/errors.h"
#include "train/data/packing.h"

namespace trireme::train {

std::vector<EvaluationSet> open_evaluation(const plan::RunSpec& run, const char* key) {
  std::vector<EvaluationSet> out;
  const std::int64_t wanted = run.train.eval_sequences;
  if (wanted == 0) return out;
  for (const plan::DataSet& named : run.data.valid) {
    const OpenedSet set = open_set(run, key, named);
    EvaluationSet made{.name = set.name, .prefix = set.prefix, .weight = set.weight};
    if (set.tokens) {
      made.source = evaluation_source(set.tokens, packing_of(run, set), wanted);
      made.all = num_windows(set.tokens->num_tokens(), run.batch.sequence_length);
    } else {
      if (wanted == plan::all_sequences)
        throw ConfigError({.file = run.file,
                           .key = "train.eval_sequences",
                           .value = "all",
                           .allowed = "needs a number where data.valid is \"random\", which has no end"});
      // Another seed than training's: the same sequences would be seen data.
      made.source = random_source(run.model.vocab_size, run.batch.sequence_length, run.train.seed + 1, wanted);
      made.all = INT64_MAX;
    }
    out.push_back(std::move(made));
  }
  return out;
}

std::vector<std::string> clamped_sets(const plan::RunSpec& run, const std::vector<EvaluationSet>& sets) {
  std::vector<std::string> out;
  if (run.train.eval_sequences == plan::all_sequences) return out;
  for (const EvaluationSet& set : sets)
    if (set.all < run.train.eval_sequences)
      out.push_back(
          fmt::format("data.valid: {} holds {} sequences of {} tokens: an evaluation takes these, where "
                      "train.eval_sequences = {} asks "
                      "for more",
                      set.name, set.all, run.batch.sequence_length, run.train.eval_sequences));
  return out;
}

}  // namespace trireme::train
