#include "sim/exchange_choice.h"

#include <algorithm>

#include "plan/exchange_pattern.h"
#include "platform/network_curves.h"
#include "sim/exchange_cost.h"

namespace trireme::sim {

Choice choose_exchange(const plan::RunSpec& run, const plan::Mesh& mesh, const platform::PlatformSpec& platform) {
  Choice choice;
  if (mesh.ep == 1 || run.model.num_moe_layers() == 0) {
    choice.ranked = {{"flat", 0}};
    return choice;
  }
  const platform::NetworkCurves network(platform);
  const MessageCost messages(mesh, network, platform.host.ranks);
  for (const std::string& name : plan::fitting_patterns(mesh)) {
    double seconds = 0;
    for (int stage = 0; stage < mesh.pp; ++stage)
      seconds = std::max(seconds, ExchangeCost(run, mesh, messages, name, stage, /*by_links=*/true).layer_s());
    choice.ranked.push_back({name, seconds});
  }
  std::stable_sort(choice.ranked.begin(), choice.ranked.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return choice;
}

}  // namespace trireme::sim
