#include "search/validation/least_squares.h"

#include <cmath>

#include <gtest/gtest.h>

namespace trireme::search {
namespace {

// y = a exp(b t) at t = 0..9, made from a = 2, b = 0.3.
LeastSquaresProblem exponential() {
  LeastSquaresProblem p;
  p.num_parameters = 2, p.num_residuals = 10;
  p.residual = [](std::size_t i, const std::vector<double>& x) {
    return x[0] * std::exp(x[1] * double(i)) - 2 * std::exp(0.3 * double(i));
  };
  p.depends_on.assign(10, {0, 1});
  p.prior = {1, 0}, p.prior_deviation = {1e6, 1e6};
  p.scale = 1e9;
  return p;
}

TEST(LeastSquares, FindsTheParametersThatMadeTheData) {
  const auto found = fit(exponential(), {1, 0}, 200);
  EXPECT_NEAR(found.parameters[0], 2, 1e-3);
  EXPECT_NEAR(found.parameters[1], 0.3, 1e-4);
}

TEST(LeastSquares, AnOutlierPullsLessThanItsSquare) {
  // Ten values of 1 and one of 11: the mean is 1.909. Under Cauchy's loss with scale 0.1 the pull of the ten, 10 (x -
  // 1), balances the outlier's 10 / (1 + (10 / 0.1)^2): x - 1 = 1 / 10001.
  LeastSquaresProblem p;
  p.num_parameters = 1, p.num_residuals = 11;
  p.residual = [](std::size_t i, const std::vector<double>& x) { return x[0] - (i < 10 ? 1 : 11); };
  p.depends_on.assign(11, {0});
  p.prior = {0}, p.prior_deviation = {1e9};
  p.scale = 0.1;
  EXPECT_NEAR(fit(p, {1.05}, 200).parameters[0], 1 + 1.0 / 10001, 1e-4);
}

TEST(LeastSquares, APriorHoldsWhatNoDataSpeaksOf) {
  LeastSquaresProblem p = exponential();
  p.num_parameters = 3;
  p.prior = {1, 0, 7}, p.prior_deviation = {1e6, 1e6, 1};
  EXPECT_DOUBLE_EQ(fit(p, {1, 0, 7}, 200).parameters[2], 7);
}

TEST(LeastSquares, IsDeterministic) {
  EXPECT_EQ(fit(exponential(), {1, 0}, 50).parameters, fit(exponential(), {1, 0}, 50).parameters);
}

}  // namespace
}  // namespace trireme::search
