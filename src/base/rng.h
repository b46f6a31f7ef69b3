// Counter-based random numbers: a value is a pure function of (seed, name, index), so that any shard of a tensor is
// drawn without its rest and in any order, the same in every layout.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace trireme {

// A stream's key from a seed and a name such as "layers.3.experts.5.gate" (FNV-1a, then a SplitMix64 finaliser).
std::uint64_t stream_key(std::uint64_t seed, std::string_view name);

// 64 random bits for an element of a stream (Philox 4x32-10; Salmon et al., SC 2011).
std::uint64_t random_bits(std::uint64_t key, std::uint64_t index);

// Uniform in [0, 1), 53 bits.
double random_uniform(std::uint64_t key, std::uint64_t index);

// Standard normal (Box-Muller over the two halves of one Philox block), computed in double. out[i] belongs to element
// first_index + i.
void random_normal(std::uint64_t key, std::uint64_t first_index, std::span<float> out, double mean, double stddev);

// A permutation of [0, n) drawn from the stream: Fisher-Yates.
void random_permutation(std::uint64_t key, std::span<std::int64_t> out);

}  // namespace trireme
