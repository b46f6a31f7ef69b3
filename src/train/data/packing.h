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
  // `order`: a permutation of the documents.
  DocumentStream(const TokenReader& tokens, std::vector<std::int64_t> order);

  // Tokens [first, first + n) of the stream, and for each the running number of its document in the stream.
  void read(std::int64_t first, std::span<std::int64_t> tokens, std::span<std::int64_t> documents) const;

 private:
  const TokenReader& tokens_;
  std::vector<std::int64_t> order_;
  std::vector<std::int64_t> begin_;  // of each document in the stream, and the end of the last
};

// Windows of S + 1 tokens that overlap by one.
inline std::int64_t num_windows(std::int64_t num_tokens, std::int64_t sequence_length) {
  return num_tokens > 0 ? (num_tokens - 1) / sequence_length : 0;
}

// Fills the slots from a window's S + 1 tokens and their document numbers.
void fill_slots(std::span<const std::int64_t> window, std::span<const std::int64_t> window_documents,
                bool reset_at_documents, SequenceSlots out);

}  // namespace trireme::train
