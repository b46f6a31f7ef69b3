#include "search/validation/least_squares.h"

#include <cmath>

namespace trireme::search {

namespace {

// Cauchy's loss of r, and the weight that makes a square of it.
double loss(double r, double scale) {
  return scale * scale * std::log1p(r * r / (scale * scale));
}
double loss_weight(double r, double scale) {
  return 1 / (1 + r * r / (scale * scale));
}

// Solves a x = b for a symmetric positive matrix (n x n, by rows) by Cholesky's factorisation; false where it isn't.
bool solve(std::vector<double> a, std::vector<double> b, std::size_t n, std::vector<double>& x) {
  for (std::size_t j = 0; j < n; ++j) {
    double d = a[j * n + j];
    for (std::size_t k = 0; k < j; ++k) d -= a[j * n + k] * a[j * n + k];
    if (!(d > 0)) return false;
    a[j * n + j] = std::sqrt(d);
    for (std::size_t i = j + 1; i < n; ++i) {
      double s = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) s -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = s / a[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  x = std::move(b);
  return true;
}

}  // namespace

LeastSquaresResult fit(const LeastSquaresProblem& p, std::vector<double> x, int max_iterations) {
  const std::size_t n = p.num_parameters;
  const auto weight = [&](std::size_t i) { return p.weight.empty() ? 1.0 : p.weight[i]; };
  std::vector<double> residuals(p.num_residuals);
  const auto cost_at = [&](const std::vector<double>& at, std::vector<double>& r) {
    double cost = 0;
    for (std::size_t i = 0; i < p.num_residuals; ++i) {
      r[i] = p.residual(i, at);
      cost += weight(i) * loss(r[i], p.scale) / (p.unit * p.unit);
    }
    for (std::size_t j = 0; j < n; ++j) {
      const double d = (at[j] - p.prior[j]) / p.prior_deviation[j];
      cost += d * d;
    }
    return cost;
  };
  LeastSquaresResult out;
  out.cost = cost_at(x, residuals);
  double damping = 1e-2;
  for (; out.iterations < max_iterations; ++out.iterations) {
    std::vector<double> a(n * n, 0), g(n, 0);
    for (std::size_t i = 0; i < p.num_residuals; ++i) {
      const auto& on = p.depends_on[i];
      std::vector<double> slope(on.size());
      for (std::size_t k = 0; k < on.size(); ++k) {
        constexpr double step = 1e-4;
        const double kept = x[on[k]];
        x[on[k]] = kept + step;
        slope[k] = (p.residual(i, x) - residuals[i]) / step;
        x[on[k]] = kept;
      }
      const double w = weight(i) * loss_weight(residuals[i], p.scale) / (p.unit * p.unit);
      for (std::size_t k = 0; k < on.size(); ++k) {
        g[on[k]] -= w * slope[k] * residuals[i];
        for (std::size_t l = 0; l < on.size(); ++l) a[on[k] * n + on[l]] += w * slope[k] * slope[l];
      }
    }
    for (std::size_t j = 0; j < n; ++j) {
      const double w = 1 / (p.prior_deviation[j] * p.prior_deviation[j]);
      a[j * n + j] += w;
      g[j] -= w * (x[j] - p.prior[j]);
    }
    bool better = false;
    const double before = out.cost;
    while (!better && damping < 1e8) {
      std::vector<double> damped = a, step;
      for (std::size_t j = 0; j < n; ++j) damped[j * n + j] *= 1 + damping;
      if (solve(std::move(damped), g, n, step)) {
        std::vector<double> next = x, r(p.num_residuals);
        for (std::size_t j = 0; j < n; ++j) next[j] += step[j];
        const double cost = cost_at(next, r);
        if (cost < out.cost) {
          x = std::move(next), residuals = std::move(r), out.cost = cost;
          better = true, damping = std::max(damping / 5, 1e-7);
          continue;
        }
      }
      damping *= 4;
    }
    if (!better || before - out.cost < 1e-5 * before) break;
  }
  out.parameters = std::move(x);
  return out;
}

}  // namespace trireme::search
