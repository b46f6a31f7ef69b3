#include "sim/estimate/expert_load.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trireme::sim {

namespace {

// Quantile of the standard normal distribution by bisection: monotone, exact to double, and called once a setting.
double normal_quantile(double p) {
  double low = -40, high = 40;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

double heaviest_rank(double cv, int num_experts, int ep) {
  if (cv <= 0 || ep <= 1 || num_experts < ep) return 1;
  const double per_rank = static_cast<double>(num_experts) / ep;
  const double factor = 1 + cv / std::sqrt(per_rank) * normal_quantile((ep - 0.375) / (ep + 0.25));
  return std::clamp(factor, 1.0, static_cast<double>(ep));
}

double heaviest_rank(const ExpertLoad& load, int num_experts, int ep) {
  if (load.counts.empty()) return heaviest_rank(load.cv, num_experts, ep);
  const auto count = static_cast<int>(load.counts.size());
  const int per_rank = std::max(1, count / std::max(1, ep));
  const double total = std::accumulate(load.counts.begin(), load.counts.end(), 0.0);
  if (total <= 0) return 1;
  double largest = 0;
  for (int first = 0; first < count; first += per_rank)
    largest = std::max(largest, std::accumulate(load.counts.begin() + first,
                                                load.counts.begin() + std::min(count, first + per_rank), 0.0));
  return largest / total * ep;
}

}  // namespace trireme::sim
