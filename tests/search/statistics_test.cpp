#include "search/validation/statistics.h"

#include <cmath>

#include <gtest/gtest.h>

namespace trireme::search {
namespace {

TEST(Statistics, MedianOfEvenNumbersIsTheMiddle) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(median({}), 0);
}

TEST(Statistics, SpearmanSeesOrderOnly) {
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {1, 10, 100, 1000}), 1);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  // Without ties rho = 1 - 6 sum d^2 / (n (n^2 - 1)); ranks 1 2 3 4 5 against 2 1 4 3 5: d^2 sums to 4, 1 - 24 / 120.
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.8);
}

TEST(Statistics, SpearmanSharesRanksBetweenTies) {
  // Ranks 1.5 1.5 3 against 1 2 3: covariance 1.5, variances 1.5 and 2.
  EXPECT_NEAR(spearman({1, 1, 2}, {1, 2, 3}), 1.5 / std::sqrt(3.0), 1e-12);
  EXPECT_DOUBLE_EQ(spearman({1, 1, 1}, {1, 2, 3}), 0);
}

}  // namespace
}  // namespace trireme::search
