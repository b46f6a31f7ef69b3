#include "search/layouts/fallbacks.h"

#include <algorithm>

namespace trireme::search {

std::vector<int> fallbacks_of(const std::vector<States>& states) {
  const auto alike = [](const States& a, const States& b) {
    const auto level = [](plan::Sharding l) {
      return l == plan::Sharding::gradients ? plan::Sharding::optimizer : l;
    };
    return level(a.sharding) == level(b.sharding) && a.shard_degree == b.shard_degree &&
           a.expert_shard_degree == b.expert_shard_degree;
  };
  std::vector<int> out, firsts;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto at = std::find_if(firsts.begin(), firsts.end(), [&](int f) { return alike(states[f], states[i]); });
    out.push_back(at == firsts.end() ? -1 : *at);
    if (at == firsts.end()) firsts.push_back(static_cast<int>(i));
  }
  return out;
}

}  // namespace trireme::search
