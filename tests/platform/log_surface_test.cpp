#include "platform/log_surface.h"

#include <cmath>

#include <gtest/gtest.h>

namespace trireme::platform {
namespace {

TEST(LogSurface, GivesBackItsPoints) {
  const LogSurface s({{1, 10, 100}}, {5, 7, 3});
  EXPECT_NEAR(s.at({1}), 5, 1e-12);
  EXPECT_NEAR(s.at({10}), 7, 1e-12);
  EXPECT_NEAR(s.at({100}), 3, 1e-12);
}

TEST(LogSurface, IsExactForAPowerLawInsideAGrid) {
  // v = 2 x^0.5 y^-1.5: its log is linear in the logs, which multilinear interpolation reproduces.
  std::vector<double> x, y, v;
  for (double a : {1.0, 8.0, 64.0})
    for (double b : {2.0, 32.0}) {
      x.push_back(a);
      y.push_back(b);
      v.push_back(2 * std::pow(a, 0.5) * std::pow(b, -1.5));
    }
  const LogSurface s({x, y}, v);
  EXPECT_TRUE(s.is_grid());
  EXPECT_NEAR(s.at({20, 5}), 2 * std::pow(20, 0.5) * std::pow(5, -1.5), 1e-12);
}

TEST(LogSurface, StaysAtTheEdgeOutside) {
  const LogSurface s({{10, 100}}, {2, 4});
  EXPECT_NEAR(s.at({1}), 2, 1e-12);
  EXPECT_NEAR(s.at({1e6}), 4, 1e-12);
}

TEST(LogSurface, HalfWayInLogsIsTheGeometricMean) {
  const LogSurface s({{10, 1000}}, {2, 8});
  EXPECT_NEAR(s.at({100}), 4, 1e-12);  // sqrt(2 * 8)
}

TEST(LogSurface, KeepsTheGridWhenExtraPointsAreAdded) {
  // A 3 x 3 grid of ones and one extra point at levels that nobody else uses: used only where it was measured.
  std::vector<double> x, y, v;
  for (double a : {1.0, 2.0, 4.0})
    for (double b : {1.0, 2.0, 4.0}) {
      x.push_back(a);
      y.push_back(b);
      v.push_back(1);
    }
  x.push_back(3);
  y.push_back(3);
  v.push_back(9);
  const LogSurface s({x, y}, v);
  EXPECT_TRUE(s.is_grid());
  EXPECT_NEAR(s.at({3, 3}), 9, 1e-12);
  EXPECT_NEAR(s.at({3, 2.5}), 1, 1e-12);
}

TEST(LogSurface, WeighsNearestPointsWhereThereIsNoGrid) {
  // Two points on a diagonal: no grid of two levels each. Half way the weights are equal: the geometric mean of 2 and 8.
  const LogSurface s({{1, 4}, {1, 4}}, {2, 8});
  EXPECT_FALSE(s.is_grid());
  EXPECT_NEAR(s.at({2, 2}), 4, 1e-12);
  // At a third of the log distance the weights are 1/(1/9) : 1/(4/9) = 4 : 1 -> exp((4 ln 2 + ln 8) / 5) = 2^(7/5).
  const double third = std::exp(std::log(4.0) / 3);
  EXPECT_NEAR(s.at({third, third}), std::pow(2.0, 1.4), 1e-9);
}

TEST(LogSurface, RefusesWhatHasNoLog) {
  EXPECT_THROW(LogSurface({{0, 1}}, {1, 1}), std::logic_error);
  EXPECT_THROW(LogSurface({{1, 2}}, {1, -1}), std::logic_error);
}

}  // namespace
}  // namespace trireme::platform
