// Documents to windows of S + 1 tokens: the arithmetic behind training_source and evaluation_source.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "train/data/sequence_source.h"

namespace trireme::train {

// The documents of a file in some order, as one stream.
class DocumentStream {
 public:
  // `order`: a permutation of the documents. `weights`: null where every weight is 1.
  DocumentStream(const TokenReader& tokens, std::vector<std::int64_t> order, const LossWeights* weights = nullptr);

  // Tokens [first, first + n) of the stream, for each the running number of its document in the stream, and its loss
  // weight.
  void read(std::int64_t first, std::span<std::int64_t> tokens, std::span<std::int64_t> documents,
            std::span<float> weights) const;

 private:
  const TokenReader& tokens_;
  const LossWeights* weights_;
  std::vector<std::int64_t> order_;
  std::vector<std::int64_t> begin_;  // of each document in the stream, and the end of the last
};

// Windows of S + 1 tokens that overlap by one.
inline std::int64_t num_windows(std::int64_t num_tokens, std::int64_t sequence_length) {
  return num_tokens > 0 ? (num_tokens - 1) / sequence_length : 0;
}

// A window's S + 1 tokens, their document numbers and their weights as targets.
struct Window {
  std::vector<std::int64_t> tokens, documents;
  std::vector<float> weights;
};
void fill_slots(const Window& window, bool reset_at_documents, SequenceSlots out);

}  // namespace trireme::train
