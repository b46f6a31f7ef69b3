#include "sim/exchange_choice.h"

#include <algorithm>

#include "plan/exchange_pattern.h"
#include "sim/exchange_cost.h"

namespace trireme::sim {

Choice choose_exchange(const plan::RunSpec& run, const plan::Mesh& mesh, const Rates& rates) {
  if (mesh.ep == 1 || run.model.num_moe_layers() == 0) return {.ranked = {{"flat", 0}}};
  const MessageCost messages(mesh, rates);
  return rank_patterns(plan::fitting_patterns(mesh), [&](const std::string& name) {
    double seconds = 0;
    for (int stage = 0; stage < mesh.pp; ++stage)
      seconds = std::max(seconds, ExchangeCost(run, mesh, messages, name, stage, /*by_links=*/true).layer_s());
    return seconds;
  });
}

}  // namespace trireme::sim
