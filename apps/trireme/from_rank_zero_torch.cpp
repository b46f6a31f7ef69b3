#include "trireme/from_rank_zero.h"

#include <chrono>
#include <thread>

#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/errors.h"
#include "comm/error_text.h"
#include "plan/all_to_all/generators.h"
#include "plan/exchange_pattern.h"

namespace trireme::apps {

nlohmann::json from_rank_zero(const std::string& what, int rank, comm::Communicator& communicator, c10d::Store& store,
                              const std::function<nlohmann::json()>& make) {
  const int world = communicator.group(plan::world_group).size();
  const std::string read = what + "/read";
  if (rank == 0) {
    try {
      nlohmann::json made = make();
      if (world > 1) store.set(what, made.dump());
      return made;
    } catch (const ConfigError&) {
      // The others must know, and have read it before the store ends with this rank.
      store.set(what, "null");
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
      while (store.add(read, 0) < world - 1 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      throw;
    }
  }
  nlohmann::json j;
  try {
    c10d::StoreTimeoutGuard patient(store, std::chrono::hours(24));
    j = nlohmann::json::parse(store.get_to_str(what));
    store.add(read, 1);
  } catch (const std::exception& error) {
    communicator.group(plan::world_group).fail("wait for the " + what, 0, comm::error_text(error));
  }
  if (j.is_null()) throw RankZeroRefused();
  return j;
}

std::vector<int> ranks_of_hosts(const plan::RunSpec& run, comm::Communicator& communicator) {
  try {
    return communicator.node_shape(communicator.group(plan::world_group)).ranks_of_node();
  } catch (const ConfigError&) {
    if (run.layout.all_to_all != "auto" && plan::needs_nodes(run.layout.all_to_all)) throw;
    return {};
  }
}

}  // namespace trireme::apps
