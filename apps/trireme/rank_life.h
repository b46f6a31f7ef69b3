// How a rank lives among the others of a launch, whatever it computes: it meets them at the store, beats, and ends with them.
// Where one fails all end, and one of them says why.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "comm/group.h"
#include "comm/launch_env.h"
#include "comm/liveness.h"
#include "plan/mesh.h"
#include "trireme/context.h"
#include "trireme/wait_for_ranks.h"

namespace c10d {
class Store;
}

namespace trireme::apps {

// Threads of a rank: as many as are asked for, else OMP_NUM_THREADS, else its share of the host's cores.
int threads_of_rank(int asked, const comm::LaunchEnv& env, const Context& context);

class RankLife {
 public:
  // Sets up the log and connects to the store. `operation` names what the rank does, for memory that ends outside of a
  // step. RuntimeFailure where the store can't be reached.
  RankLife(const comm::LaunchEnv& launched_as, std::chrono::milliseconds timeout, std::string operation);
  ~RankLife();

  // Runs `body`, which calls meet(), and ends this rank with the others; returns the body's exit code. A failure is told to
  // the others first. It is thrown on by one rank; on the others this returns the exit code that it means.
  int run(const std::function<int()>& body);

  // Its place in the launch. Which ranks share this host is known behind find_local_ranks(), where the launcher has not said it.
  const comm::LaunchEnv& env() const { return env_; }
  // In `body`, before meet(). Rank 0 says from here on for whom it waits.
  void find_local_ranks();
  // Collective over the world. `device` is a run's: cpu or cuda.
  comm::Communicator& meet(const plan::Mesh& mesh, const std::string& device, int threads);

  c10d::Store& store() const { return *store_; }  // every wait for a key ends with a known death
  const c10::intrusive_ptr<c10d::Store>& shared_store() const { return store_; }
  std::string in_vain() const;  // why waiting for another rank is in vain; empty while all live

 private:
  void wait_until_told();

  comm::LaunchEnv env_;
  std::chrono::milliseconds timeout_;
  std::string operation_;
  // In this order: the liveness ends the communicator's operations, and looks into the store.
  c10::intrusive_ptr<c10d::Store> own_store_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::atomic<comm::Communicator*> to_abort_{nullptr};
  std::unique_ptr<comm::Liveness> liveness_;  // null for a single rank
  c10::intrusive_ptr<c10d::Store> store_;
  std::optional<WaitForRanks> waiting_;
};

}  // namespace trireme::apps
