#include "search/layouts/stage_split.h"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace trireme::search {
namespace {

// The best over all ways to cut, by trying every one.
double best_by_trying(const LayerCosts& costs, int pieces) {
  const int layers = static_cast<int>(costs.layer_s.size());
  double best = 1e300;
  std::vector<std::int64_t> split(pieces, 0);
  const auto place = [&](auto&& self, int piece, int left) -> void {
    if (piece + 1 == pieces) {
      split[piece] = left;
      best = std::min(best, slowest_piece(costs, split));
      return;
    }
    for (int n = 1; n <= left; ++n) {
      split[piece] = n;
      self(self, piece + 1, left - n);
    }
  };
  place(place, 0, layers);
  return best;
}

TEST(StageSplit, IsAsGoodAsTryingEveryCut) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> cost(0.2, 2);
  for (int round = 0; round < 60; ++round) {
    const int layers = 4 + round % 7, pieces = 2 + round % 3;
    std::vector<double> layer_s(layers);
    for (double& s : layer_s) s = cost(random);
    const LayerCosts costs{.layer_s = layer_s, .first_s = cost(random) / 4, .last_s = cost(random)};
    const double best = best_by_trying(costs, pieces);
    for (const bool late : {false, true}) {
      const auto split = balanced_split(costs, pieces, late);
      EXPECT_EQ(std::accumulate(split.begin(), split.end(), std::int64_t{0}), layers);
      EXPECT_NEAR(slowest_piece(costs, split), best, 1e-6 * best) << "round " << round << (late ? " late" : " early");
    }
  }
}

// 61 equal layers and a head of two and a half: 16 pieces of at most 4 hold 4 x 15 and 1 + 2.5 < 4.
TEST(StageSplit, LeavesRoomForTheHead) {
  const std::vector<double> layer_s(61, 1.0);
  const auto split = balanced_split({.layer_s = layer_s, .first_s = 0, .last_s = 2.5}, 16, false);
  std::vector<std::int64_t> expected(16, 4);
  expected.back() = 1;
  EXPECT_EQ(split, expected);
}

TEST(StageSplit, MorePiecesThanLayersLeavesSomeEmpty) {
  const std::vector<double> layer_s(3, 1.0);
  const auto split = balanced_split({.layer_s = layer_s}, 6, false);
  EXPECT_EQ(std::accumulate(split.begin(), split.end(), std::int64_t{0}), 3);
  EXPECT_EQ(*std::max_element(split.begin(), split.end()), 1);
}

}  // namespace
}  // namespace trireme::search
