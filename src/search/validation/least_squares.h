// Robust nonlinear least squares with a prior on each parameter: Levenberg (1944) and Marquardt (1963), by differences.
#pragma once
#include <functional>
#include <vector>

namespace trireme::search {

struct LeastSquaresProblem {
  std::size_t num_parameters = 0, num_residuals = 0;
  // Residual i at these parameters. It depends only on the parameters named by depends_on[i].
  std::function<double(std::size_t i, const std::vector<double>& parameters)> residual;
  std::vector<std::vector<std::size_t>> depends_on;
  std::vector<double> prior, prior_deviation;  // of each parameter: ((p - prior) / deviation)^2 is added
  std::vector<double> weight;                  // of each residual; empty: 1
  // Residuals far beyond this count by their logarithm only (Cauchy's loss, Black and Rangarajan 1996).
  double scale = 0.15;
  double unit = 0.05;  // the residual that counts as one deviation
};

struct LeastSquaresResult {
  std::vector<double> parameters;
  double cost = 0;
  int iterations = 0;
};

// Deterministic. Ends when an iteration lowers the cost by less than 1e-5 of itself.
LeastSquaresResult fit(const LeastSquaresProblem& problem, std::vector<double> start, int max_iterations = 60);

}  // namespace trireme::search
