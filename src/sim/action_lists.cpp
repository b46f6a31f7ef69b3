#include "sim/action_lists.h"

#include <algorithm>

#include "base/errors.h"
#include "base/rng.h"

namespace trireme::sim {

using plan::Action;
using plan::Lane;

namespace {

// A factor of the table's distribution, stretched about 1.
double noise_factor(const platform::NoiseTable& table, double stretch, std::uint64_t key, std::size_t list, int action) {
  const auto& factors = table.factor;
  if (factors.empty()) return 1;
  const double at = random_uniform(key, static_cast<std::uint64_t>(list) << 32 | static_cast<std::uint32_t>(action)) *
                    static_cast<double>(factors.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(at), factors.size() - 1), high = std::min(low + 1, factors.size() - 1);
  const double factor = factors[low] + (factors[high] - factors[low]) * (at - static_cast<double>(low));
  return std::max(1 + (factor - 1) * stretch, 0.0);
}

void link(ActionList& list) {
  const auto& actions = *list.actions;
  list.first_in_lane.fill(-1);
  list.next_in_lane.assign(actions.size(), -1);
  list.first_successor.assign(actions.size() + 1, 0);
  std::array<int, plan::num_lanes> last;
  last.fill(-1);
  for (const Action& a : actions) {
    const int lane = static_cast<int>(a.lane);
    (last[lane] < 0 ? list.first_in_lane[lane] : list.next_in_lane[last[lane]]) = a.id;
    last[lane] = a.id;
    for (int w : a.waits) {
      TRIREME_CHECK(w >= 0 && w < static_cast<int>(actions.size()), "stage {}: \"{}\" waits for action {}", list.stage,
                    plan::describe(a), w);
      ++list.first_successor[w + 1];
    }
  }
  for (std::size_t i = 0; i < actions.size(); ++i) list.first_successor[i + 1] += list.first_successor[i];
  list.successors.resize(list.first_successor.back());
  std::vector<int> at(list.first_successor.begin(), list.first_successor.end() - 1);
  for (const Action& a : actions)
    for (int w : a.waits) list.successors[at[w]++] = a.id;
}

}  // namespace

std::vector<ActionList> action_lists(const plan::Plan& plan, const plan::Costs& costs, const SimulateOptions& o) {
  TRIREME_CHECK(costs.stages.size() == plan.stages.size(), "costs of {} stages for {}", costs.stages.size(), plan.stages.size());
  const std::uint64_t noise_key = stream_key(o.seed, "noise");
  std::vector<ActionList> out(o.every_rank ? static_cast<std::size_t>(plan.mesh.world()) : plan.stages.size());
  for (std::size_t l = 0; l < out.size(); ++l) {
    ActionList& list = out[l];
    list.stage = o.every_rank ? plan.mesh.pp_index(static_cast<int>(l)) : static_cast<int>(l);
    list.actions = &plan.stages[list.stage].actions;
    list.length = costs.stages[list.stage].action_s;
    TRIREME_CHECK(list.length.size() == list.actions->size(), "stage {}: {} prices for {} actions", list.stage,
                  list.length.size(), list.actions->size());
    if (!o.scale.empty())
      for (std::size_t i = 0; i < list.length.size(); ++i) list.length[i] *= o.scale[l][i];
    if (o.noise)
      for (const Action& a : *list.actions)
        if (a.lane == Lane::compute) list.length[a.id] *= noise_factor(*o.noise, o.noise_stretch, noise_key, l, a.id);
    link(list);
  }
  return out;
}

void check_completed(const ActionList& list, int action, bool completed) {
  TRIREME_CHECK(completed, "stage {}: \"{}\" can never go on", list.stage, plan::describe((*list.actions)[action]));
}

}  // namespace trireme::sim
