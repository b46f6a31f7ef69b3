#include "comm/rank_hosts.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/network.h"

namespace trireme::comm {

std::vector<std::string> rank_hosts(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world,
                                    const std::string& prefix) {
  const auto key = [&](int r) { return fmt::format("{}/host/{}", prefix, r); };
  std::vector<std::string> hosts;
  store->set(key(rank), host_identity());
  for (int r = 0; r < world; ++r) hosts.push_back(store->get_to_str(key(r)));
  return hosts;
}

}  // namespace trireme::comm
