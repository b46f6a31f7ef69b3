// A data set of RUN.toml, opened and checked.
#pragma once
#include <memory>
#include <string>

#include "plan/run_spec.h"
#include "train/data/sequence_source.h"

namespace trireme::train {

struct OpenedSet {
  std::string name, prefix;
  double weight = 1;
  std::shared_ptr<const TokenReader> tokens;   // null: random
  std::shared_ptr<const LossWeights> weights;  // null: every target counts 1
};

// ConfigError naming `key` for files that are missing or damaged, and for tokens that the model does not know.
OpenedSet open_set(const plan::RunSpec& run, const char* key, const plan::DataSet& set);

// ConfigError where two sets of the run (data.train, data.valid) were made with different tokenizers, as far as their
// PREFIX.meta.json say: the same number would be different texts.
void check_same_tokenizer(const plan::RunSpec& run);

// What makes two files the same data for a run: 16 hex digits over the number of documents and over tokens, document
// bounds and loss weights at equal distances, all of them where they are few. Reads at most some 3 MB.
std::string fingerprint(const OpenedSet& set);

PackingOptions packing_of(const plan::RunSpec& run, const OpenedSet& set);

}  // namespace trireme::train
