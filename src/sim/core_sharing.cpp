#include "sim/core_sharing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace trireme::sim {

namespace {

// Linear between points; the first value below, in proportion to x above.
double along(const std::vector<double>& xs, const std::vector<double>& ys, double x) {
  if (x <= xs.front()) return ys.front();
  for (std::size_t i = 1; i < xs.size(); ++i)
    if (x <= xs[i]) return ys[i - 1] + (ys[i] - ys[i - 1]) * (x - xs[i - 1]) / (xs[i] - xs[i - 1]);
  return ys.back() * x / xs.back();
}

}  // namespace

int ranks_of_machine(const platform::Host& host, int world) {
  return host.ranks > 0 ? static_cast<int>(std::min<std::int64_t>(std::int64_t{host.ranks} * host.per_machine, world)) : world;
}

const platform::BusyTable* busy_table(const platform::Host& host, int threads) {
  const auto distance = [&](const platform::BusyTable& t) { return std::abs(std::log(double(std::max(1, t.threads)) / std::max(1, threads))); };
  const platform::BusyTable* nearest = nullptr;
  for (const platform::BusyTable& table : host.busy)
    if (!nearest || distance(table) < distance(*nearest)) nearest = &table;
  return nearest;
}

double slow_down(const platform::BusyTable* table, double busy, int threads, int cores) {
  if (cores <= 0) return 1;
  if (table && table->threads == threads && !table->ranks.empty()) return along(table->ranks, table->slow_down, busy);
  return std::max(1.0, busy * threads / cores);
}

double hand_over_s(const platform::BusyTable* table, double busy) {
  return table && !table->ranks.empty() ? along(table->ranks, table->hand_over_s, busy) : 0;
}

double distance_from_mean(const std::vector<double>& factors) {
  double sum = 0;
  for (const double factor : factors) sum += std::abs(factor - 1);
  return factors.empty() ? 0 : sum / static_cast<double>(factors.size());
}

double noise_stretch(const platform::BusyTable& table, const platform::NoiseTable& noise, int ranks) {
  const double distance = distance_from_mean(noise.factor);
  if (table.noise.empty() || distance <= 0) return 1;
  // The last number of ranks stands for more of them: noise does not grow without end.
  return along(table.ranks, table.noise, std::min<double>(ranks, table.ranks.back())) / distance;
}

}  // namespace trireme::sim
