#include "search/layouts/simulated.h"

#include <algorithm>

namespace trireme::search {

Simulated simulate_best(const Question& q, const std::vector<Estimate>& best, ScheduleShelf& shelf) {
  Simulated out{.best = best};
  double fastest = 0;
  for (Estimate& e : out.best) {
    std::optional<sim::SimulatedLayout> simulated;
    if (sim::num_actions(e.setting) <= most_actions) {
      const auto ready = shelf.get(e.setting);
      simulated = sim::simulate_layout(e.setting, ready->schedule, ready->grid, *q.target.rates, q.target.kernels);
      e.time.tokens_per_s_per_device *= e.time.step_s / simulated->result.step_s;
      e.time.step_s = simulated->result.step_s;
      e.needed_bytes = simulated->needed_bytes;
      e.headroom_bytes = q.target.capacity_bytes - e.needed_bytes;
      e.simulated = true;
    }
    if (fastest == 0 || e.time.step_s < fastest) fastest = e.time.step_s, out.of_first = std::move(simulated);
  }
  // Equally fast ones keep their order, so that the first is the one whose plan was kept.
  std::stable_sort(out.best.begin(), out.best.end(),
                   [](const Estimate& a, const Estimate& b) { return a.time.step_s < b.time.step_s; });
  return out;
}

}  // namespace trireme::search
