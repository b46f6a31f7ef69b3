#include "train/data/weighted_spans.h"

#include <algorithm>

namespace trireme::train {

float weight_of(const WeightedSpans& spans, ByteSpan token) {
  if (spans.empty()) return 1;
  const std::size_t end = std::max(token.end, token.begin + 1);
  // The first that ends behind the token's begin.
  auto at = std::upper_bound(spans.begin(), spans.end(), token.begin,
                             [](std::size_t begin, const WeightedSpan& span) { return begin < span.bytes.end; });
  float weight = 0;
  for (; at != spans.end() && at->bytes.begin < end; ++at) weight = std::max(weight, at->weight);
  return weight;
}

}  // namespace trireme::train
