#include "train/data/blend.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace trireme::train {
namespace {

std::vector<BlendShare> shares_of(const std::vector<double>& weights) {
  std::vector<BlendShare> out;
  for (std::size_t i = 0; i < weights.size(); ++i)
    out.push_back({std::string(1, static_cast<char>('a' + i)), weights[i]});
  return out;
}

// What one set alone gives: today's order, whatever its weight.
TEST(Blend, OfOneSetIsTheSet) {
  const Blend blend(shares_of({0.3}));
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 50})
    EXPECT_EQ(blend.place(n), (BlendPlace{.set = 0, .number = n}));
}

// The definition: after n sequences a set of weight w has given n w / W, rounded, give or take one; and its own
// sequences come in their order, none twice and none left out.
TEST(Blend, EveryPrefixHasTheProportions) {
  std::vector<std::vector<double>> blends{{1, 1},
                                          {2, 1},
                                          {0.7, 0.2, 0.1},
                                          {1, 1, 1},
                                          {1, 1000000},
                                          {3, 1, 4},
                                          {5, 5, 5, 1},
                                          {1, 1, 2, 3, 5, 8, 13, 21},
                                          {0.9, 0.05, 0.03, 0.02}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<double> weights(2 + seed % 9);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = std::exp(6 * random_uniform(seed, i) - 3);
    blends.push_back(weights);
  }
  for (const auto& weights : blends) {
    const Blend blend(shares_of(weights));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<std::int64_t> taken(weights.size());
    for (std::int64_t n = 0; n < 20000; ++n) {
      const BlendPlace place = blend.place(n);
      ASSERT_EQ(place.number, taken.at(place.set)++) << "sequence " << n << " of " << ::testing::PrintToString(weights);
      for (std::size_t i = 0; i < weights.size(); ++i)
        ASSERT_LE(std::abs(std::round(static_cast<double>(n + 1) * weights[i] / sum) - static_cast<double>(taken[i])),
                  1)
            << "set " << i << " after " << n + 1 << " sequences of " << ::testing::PrintToString(weights);
      if (n % 997 == 0) {
        ASSERT_EQ(blend.taken(n + 1), taken);
      }
    }
  }
}

// Far into a run nothing has drifted: 10^15 sequences of 3 : 1 are 7.5 10^14 and 2.5 10^14, exact in a double.
TEST(Blend, ProportionsHoldFarAway) {
  const Blend blend(shares_of({3, 1}));
  const std::int64_t n = 1'000'000'000'000'000;
  EXPECT_EQ(blend.taken(n), (std::vector<std::int64_t>{n / 4 * 3, n / 4}));
  std::vector<std::int64_t> next = blend.taken(n);
  for (std::int64_t i = 0; i < 100; ++i) {
    const BlendPlace place = blend.place(n + i);
    EXPECT_EQ(place.number, next[place.set]++);
  }
}

TEST(Blend, TheOrderOfTheSetsInTheFileDoesNotMatter) {
  std::vector<BlendShare> shares{{"x", 2}, {"y", 2}, {"z", 1}, {"u", 1}, {"v", 3}};
  const Blend blend(shares);
  std::vector<BlendShare> reversed(shares.rbegin(), shares.rend());
  const Blend other(reversed);
  for (std::int64_t n = 0; n < 500; ++n) {
    const BlendPlace a = blend.place(n), b = other.place(n);
    EXPECT_EQ(shares[a.set].name, reversed[b.set].name);
    EXPECT_EQ(a.number, b.number);
  }
}

}  // namespace
}  // namespace trireme::train
