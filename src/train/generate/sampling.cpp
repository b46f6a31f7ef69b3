#include "train/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/errors.h"
#include "base/rng.h"

namespace trireme::train {

void check(const Sampling& sampling) {
  if (!(sampling.temperature >= 0) || std::isinf(sampling.temperature))
    throw ConfigError({.key = "--temperature",
                       .value = fmt::format("{}", sampling.temperature),
                       .allowed = "0 (always the likeliest token) or a positive number"});
  if (sampling.top_k < 0)
    throw ConfigError(
        {.key = "--top-k", .value = fmt::format("{}", sampling.top_k), .allowed = "a number of tokens, or 0 for all"});
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    throw ConfigError(
        {.key = "--top-p", .value = fmt::format("{}", sampling.top_p), .allowed = "above 0 and at most 1"});
}

std::vector<Candidate> candidates(std::span<const float> logits, const Sampling& sampling) {
  TRIREME_CHECK(!logits.empty());
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<std::int32_t> heap(logits.size());
  std::iota(heap.begin(), heap.end(), 0);
  if (sampling.temperature == 0) return {{*std::min_element(heap.begin(), heap.end(), likelier), 1.0}};

  const double largest = *std::max_element(logits.begin(), logits.end());
  const auto weight = [&](std::int32_t token) {
    return std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - largest) / sampling.temperature);
  };
  // The likeliest come off a heap, so that a few of a large vocabulary need no sort of all.
  const auto worse = [&](std::int32_t a, std::int32_t b) { return likelier(b, a); };
  std::make_heap(heap.begin(), heap.end(), worse);
  const auto take = [&] {
    std::pop_heap(heap.begin(), heap.end(), worse);
    const std::int32_t token = heap.back();
    heap.pop_back();
    return Candidate{token, weight(token)};
  };
  std::vector<Candidate> kept;
  const std::size_t most =
      sampling.top_k > 0 ? std::min<std::size_t>(static_cast<std::size_t>(sampling.top_k), heap.size()) : heap.size();
  double total = 0;
  if (most == heap.size()) {
    for (const std::int32_t token : heap) total += weight(token);
  } else {
    while (kept.size() < most) kept.push_back(take()), total += kept.back().probability;
  }
  double sum = 0;
  std::size_t count = 0;
  while (count < most && (sampling.top_p >= 1 || sum < sampling.top_p * total)) {
    if (count == kept.size()) kept.push_back(take());
    sum += kept[count++].probability;
  }
  kept.resize(count);
  for (Candidate& c : kept) c.probability /= sum;
  return kept;
}

std::int32_t choose(std::span<const float> logits, const Sampling& sampling, double uniform) {
  const std::vector<Candidate> from = candidates(logits, sampling);
  double sum = 0;
  for (const Candidate& c : from) {
    sum += c.probability;
    if (uniform < sum) return c.token;
  }
  // The rounded sum may end a little below 1. A token of probability zero is never the one.
  const auto last = std::find_if(from.rbegin(), from.rend(), [](const Candidate& c) { return c.probability > 0; });
  return last->token;
}

double uniform_for(std::uint64_t seed, std::int64_t prompt, std::int64_t sample, std::int64_t position) {
  return random_uniform(stream_key(seed, fmt::format("generate.prompt.{}.sample.{}", prompt, sample)),
                        static_cast<std::uint64_t>(position));
}

}  // namespace trireme::train
