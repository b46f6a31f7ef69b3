#include "sim/simulate.h"

#include <algorithm>

#include "sim/own_devices.h"
#include "sim/shared_hosts.h"

namespace trireme::sim {

SimResult simulate(const plan::Plan& plan, const plan::Costs& costs, const SimulateOptions& o) {
  const std::vector<ActionList> lists = action_lists(plan, costs, o);
  const plan::Rendezvous together = o.every_rank ? plan::match_ranks(plan) : plan::match(plan);
  SimResult out{.every_rank = o.every_rank};
  out.spans = o.cores > 0 || o.overlap < 1 ? run_on_shared_hosts(plan.mesh, lists, together, o) : run_on_own_devices(lists, together);
  for (std::size_t l = 0; l < lists.size(); ++l) {
    for (const plan::Span& span : out.spans[l]) out.step_s = std::max(out.step_s, span.end_s);
    const int s = lists[l].stage;
    if (o.memory) out.memory.push_back(plan::memory_curve(plan.stages[s], costs.stages[s], out.spans[l]));
  }
  return out;
}

std::vector<plan::RankTimeline> timelines(const plan::Plan& plan, const SimResult& result) {
  std::vector<plan::RankTimeline> out;
  for (int rank = 0; rank < plan.mesh.world(); ++rank) {
    const int stage = plan.mesh.pp_index(rank);
    const int list = result.every_rank ? rank : stage;
    out.push_back({.rank = rank, .spans = result.spans[list], .step_s = result.step_s,
                   .peak_memory_bytes = result.memory.empty() ? 0 : result.memory[list].peak_bytes});
  }
  return out;
}

}  // namespace trireme::sim
