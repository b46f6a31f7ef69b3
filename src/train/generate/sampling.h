// The choice of the next token from a model's logits. Pure functions of the logits and one uniform number, so that a
// text is a function of (model, prompt, seed).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::train {

struct Sampling {
  double temperature = 1.0;  // logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;    // only so many of the likeliest tokens; 0: all
  double top_p = 1.0;        // only the likeliest ones until their probabilities add up to it, the one that crosses it
                             // included (the nucleus: Holtzman et al., 2020); after top_k, of whose tokens it is a part
  bool operator==(const Sampling&) const = default;
};

// ConfigError naming the option ("--top-p") and what is allowed.
void check(const Sampling& sampling);

struct Candidate {
  std::int32_t token = 0;
  double probability = 0;  // of all candidates: 1
};

// What may be chosen, the likeliest first, of equal ones the lower token first. Temperature 0: one candidate.
std::vector<Candidate> candidates(std::span<const float> logits, const Sampling& sampling);

// The candidate in whose part of [0, 1) `uniform` lies, the likeliest candidate's part being the first.
std::int32_t choose(std::span<const float> logits, const Sampling& sampling, double uniform);

// The number for a token of a sample, from base/rng.h: no other token has the same, and no order of computing matters.
double uniform_for(std::uint64_t seed, std::int64_t prompt, std::int64_t sample, std::int64_t position);

}  // namespace trireme::train
