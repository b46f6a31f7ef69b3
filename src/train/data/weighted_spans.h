// How much each part of a document counts in the loss.
#pragma once
#include <cstddef>
#include <vector>

#include "train/data/tokenizer.h"

namespace trireme::train {

struct WeightedSpan {
  ByteSpan bytes;
  float weight = 1;
  bool operator==(const WeightedSpan&) const = default;
};

// Ordered and apart from each other; what none covers weighs 0. No spans: everything weighs 1.
using WeightedSpans = std::vector<WeightedSpan>;

// A token's weight: the greatest among the characters that it stands for, so that one across a border counts with the
// part that is learned. A token that stands for none (a part of a character) has the weight at its place.
float weight_of(const WeightedSpans& spans, ByteSpan token);

}  // namespace trireme::train
