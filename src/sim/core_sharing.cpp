#include <algorithm>

#include "sim/simulate.h"

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

double slow_down(const platform::BusyTable* table, double busy, int threads, int cores) {
  if (cores <= 0) return 1;
  if (table && table->threads == threads && !table->ranks.empty()) return along(table->ranks, table->slow_down, busy);
  return std::max(1.0, busy * threads / cores);
}

double hand_over_s(const platform::BusyTable* table, double busy) {
  return table && !table->ranks.empty() ? along(table->ranks, table->hand_over_s, busy) : 0;
}

}  // namespace trireme::sim
