#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace trireme {
namespace {

// The first is of Random123's kat_vectors ("philox4x32 10", counter 0, key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8);
// none of the others leaves our constant counter words 0, so the second (key 0xdeadbeef01234567, counter 5) is from a
// transcription of the paper's algorithm into Python that reproduces the first.
TEST(Rng, PhiloxKnownAnswer) {
  EXPECT_EQ(random_bits(0, 0), 0xe169c58d6627e8d5u);
  EXPECT_EQ(random_bits(0xdeadbeef01234567u, 5), 0xdc4dbee510fa682eu);
}

TEST(Rng, UniformIsTheTop53Bits) {
  EXPECT_DOUBLE_EQ(random_uniform(0, 0), static_cast<double>(0xe169c58d6627e8d5u >> 11) / 9007199254740992.0);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(random_uniform(7, i), 0.0);
    EXPECT_LT(random_uniform(7, i), 1.0);
  }
}

TEST(Rng, StreamKeysDifferBySeedAndName) {
  EXPECT_EQ(stream_key(1, "layers.3.router.weight"), stream_key(1, "layers.3.router.weight"));
  EXPECT_NE(stream_key(1, "layers.3.router.weight"), stream_key(2, "layers.3.router.weight"));
  EXPECT_NE(stream_key(1, "layers.3.router.weight"), stream_key(1, "layers.4.router.weight"));
  EXPECT_NE(stream_key(1, ""), stream_key(0, ""));
}

TEST(Rng, AnyPieceOfATensorEqualsTheWhole) {
  std::vector<float> whole(101);
  random_normal(42, 0, whole, 0.0, 1.0);
  for (std::size_t first : {0, 1, 2, 50, 99, 100})
    for (std::size_t length : {1, 2, 3, 37}) {
      if (first + length > whole.size()) continue;
      std::vector<float> piece(length);
      random_normal(42, first, piece, 0.0, 1.0);
      for (std::size_t i = 0; i < length; ++i) EXPECT_EQ(piece[i], whole[first + i]) << first << " + " << i;
    }
}

TEST(Rng, NormalHasItsMoments) {
  // n = 200,000: the standard error of the mean is sigma / sqrt(n) = 0.0045 here, of the variance sigma^2 sqrt(2 / n)
  // = 0.0126, of the excess kurtosis sqrt(24 / n) = 0.011; bounds are five of each.
  std::vector<float> x(200000);
  random_normal(stream_key(3, "moments"), 17, x, 1.5, 2.0);
  const double n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double m2 = 0, m4 = 0, lag = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - mean;
    m2 += d * d / n;
    m4 += d * d * d * d / n;
    if (i > 0) lag += d * (x[i - 1] - mean) / n;
  }
  EXPECT_NEAR(mean, 1.5, 5 * 0.0045);
  EXPECT_NEAR(m2, 4.0, 5 * 0.0126);
  EXPECT_NEAR(m4 / (m2 * m2), 3.0, 5 * 0.011);
  EXPECT_NEAR(lag / m2, 0.0, 5 / std::sqrt(n));  // the two normals of one block are independent
}

TEST(Rng, PermutationHoldsEachIndexOnce) {
  for (std::size_t n : {0, 1, 2, 7, 1000}) {
    std::vector<std::int64_t> p(n), sorted;
    random_permutation(stream_key(1, "p"), p);
    sorted = p;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(sorted[i], static_cast<std::int64_t>(i));
    std::vector<std::int64_t> again(n);
    random_permutation(stream_key(1, "p"), again);
    EXPECT_EQ(p, again);
  }
}

TEST(Rng, PermutationsAreUniform) {
  // All 6 orders of 3 elements over 6,000 streams: expected 1,000 each, standard deviation sqrt(6000 * 1/6 * 5/6) = 29.
  std::vector<int> seen(27, 0);
  for (int i = 0; i < 6000; ++i) {
    std::vector<std::int64_t> p(3);
    random_permutation(stream_key(5, std::to_string(i)), p);
    ++seen[static_cast<std::size_t>(p[0] * 9 + p[1] * 3 + p[2])];
  }
  for (int index : {5, 7, 11, 15, 19, 21}) EXPECT_NEAR(seen[static_cast<std::size_t>(index)], 1000, 5 * 29);
}

}  // namespace
}  // namespace trireme
