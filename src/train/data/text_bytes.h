// How many bytes of text a set's targets are: what bits per byte are counted over.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "train/data/sequence_source.h"
#include "train/data/tokenizer.h"

namespace trireme::train {

struct TargetCount {
  std::int64_t targets = 0;           // with a weight above 0
  std::optional<std::int64_t> bytes;  // of their text; none without a tokenizer, and where a weight is neither 0 nor 1
};

// Reads all sequences. Targets that follow one another are decoded together with the token before them: exact for
// bytes; where a sequence cuts a character in two that the tokenizer spells in bytes, it is off by these bytes. Tokens
// that stand for no text (end of text) have none. `tokenizer` may be null.
TargetCount count_targets(const SequenceSource& source, const Tokenizer* tokenizer);

// The tokenizer that PREFIX.meta.json names; null where that is unknown or can't be had.
std::unique_ptr<Tokenizer> known_tokenizer(const std::string& prefix);

}  // namespace trireme::train
