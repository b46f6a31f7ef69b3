#include "base/rng.h"

#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace trireme {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Philox 4x32-10 with the constants of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Block philox(std::uint64_t key, std::uint64_t counter, std::uint32_t domain) {
  Block c{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), domain, 0};
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0], p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Bits and normals of one stream come from counters that never meet.
constexpr std::uint32_t domain_bits = 0, domain_normal = 1;

std::uint64_t low_half(const Block& b) {
  return b[0] | (std::uint64_t{b[1]} << 32);
}
std::uint64_t high_half(const Block& b) {
  return b[2] | (std::uint64_t{b[3]} << 32);
}
double to_unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

std::pair<double, double> normal_pair(std::uint64_t key, std::uint64_t pair) {
  const Block block = philox(key, pair, domain_normal);
  // 1 - u lies in (0, 1], where the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - to_unit(low_half(block))));
  const double angle = 2.0 * std::numbers::pi * to_unit(high_half(block));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

std::uint64_t split_mix_finaliser(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001B3u;
  return split_mix_finaliser(split_mix_finaliser(seed) ^ hash);
}

std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) {
  return low_half(philox(key, index, domain_bits));
}

double random_uniform(std::uint64_t key, std::uint64_t index) {
  return to_unit(random_bits(key, index));
}

void random_normal(std::uint64_t key, std::uint64_t first_index, std::span<float> out, double mean, double stddev) {
  std::size_t i = 0;
  // Elements 2j and 2j + 1 share a block; a range may begin or end in the middle of one.
  while (i < out.size()) {
    const std::uint64_t index = first_index + i;
    const auto [even, odd] = normal_pair(key, index / 2);
    if (index % 2 == 0) {
      out[i++] = static_cast<float>(mean + stddev * even);
      if (i < out.size()) out[i++] = static_cast<float>(mean + stddev * odd);
    } else {
      out[i++] = static_cast<float>(mean + stddev * odd);
    }
  }
}

void random_permutation(std::uint64_t key, std::span<std::int64_t> out) {
  std::iota(out.begin(), out.end(), std::int64_t{0});
  for (std::size_t i = out.size(); i > 1; --i) {
    // The high half of bits * i is uniform in [0, i) to within i / 2^64.
    const auto j = static_cast<std::size_t>((static_cast<unsigned __int128>(random_bits(key, i)) * i) >> 64);
    std::swap(out[i - 1], out[j]);
  }
}

}  // namespace trireme
