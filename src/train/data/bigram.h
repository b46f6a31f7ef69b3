// The baseline that a language model must beat: a bigram model with Witten-Bell smoothing,
//   P(w | v) = (c(v, w) + T(v) P(w)) / (c(v) + T(v)),  T(v) = number of different successors of v,
// over an add-one unigram P(w) = (c(w) + 1) / (N + V). (Witten and Bell, 1991; Chen and Goodman, 1999, section 2.6.)
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "train/data/sequence_source.h"

namespace trireme::train {

// A few seconds of counting, so that whoever waits for it does not give up.
inline constexpr std::int64_t most_bigram_tokens = std::int64_t{1} << 26;

class BigramModel {
 public:
  // Counts the file's first most_bigram_tokens tokens; pairs within documents only where `reset_at_documents`. Memory: about 40 bytes a
  // different pair, or 4 bytes times vocab_size^2 up to a vocabulary of 4,096.
  BigramModel(const TokenReader& tokens, std::int64_t vocab_size, bool reset_at_documents);

  double log_probability(std::int64_t previous, std::int64_t next) const;

 private:
  std::uint32_t pair_count(std::int64_t previous, std::int64_t next) const;

  std::int64_t vocab_size_;
  double num_tokens_ = 0;
  std::vector<std::uint32_t> dense_;                            // v * V + w, for small vocabularies
  std::unordered_map<std::uint64_t, std::uint32_t> sparse_;     // the same key
  std::vector<std::uint64_t> unigram_, followed_, successors_;  // c(w); c(v); T(v)
};

struct CrossEntropy {
  double nats_per_token = 0;
  double num_targets = 0;
};

// Over the first `num_sequences` sequences, each target with its weight: what evaluation of a model computes.
CrossEntropy cross_entropy(const BigramModel& model, const SequenceSource& source, std::int64_t num_sequences);

}  // namespace trireme::train
