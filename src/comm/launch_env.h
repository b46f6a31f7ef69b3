// Which rank this process is, from the environment that torchrun, Slurm or `trireme --ranks` gives it. The environment
// is read once, in main, and handed in as a map.
#pragma once
#include <chrono>
#include <map>
#include <string>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Store;
}

namespace trireme::comm {

using Environment = std::map<std::string, std::string>;

enum class LaunchSource { single, torchrun, slurm, trireme };
const char* name_of(LaunchSource source);

struct LaunchEnv {
  int rank = 0;
  int world = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_world = 1;
  std::string master_addr;
  int master_port = 0;
  LaunchSource source = LaunchSource::single;
  bool serves_store = false;  // this process runs the store's server: rank 0 where no launcher does
  int attempt = 0;            // of torchrun, which restarts with the same store
  std::string interface;      // GLOO_SOCKET_IFNAME
  bool libtorch_log = false;  // TORCH_CPP_LOG_LEVEL or TORCH_DISTRIBUTED_DEBUG is set
  bool operator==(const LaunchEnv&) const = default;
};

// RANK and WORLD_SIZE decide first (torchrun, or ours where TRIREME_LAUNCHED is set), then a Slurm job step, else this
// is the only rank. A batch script outside `srun` is no job step. ConfigError names a variable that is missing,
// malformed or contradicts another.
LaunchEnv parse_launch_env(const Environment& environment);

// The first host of a Slurm node list: "n[03-05,9],x1" -> "n03".
std::string first_host(const std::string& node_list);
// Tasks on the node with this index of a Slurm list: "4(x2),3" -> 4, 4, 3. ConfigError names `variable`.
int tasks_on_node(const std::string& tasks_per_node, int node, const std::string& variable);

// The store of the run, one client connection; in memory for a single rank. RuntimeFailure where it cannot be reached
// within the time-out. Keys live under rank_keys(). Unless env.libtorch_log, libtorch's own log of failing connections
// (with backtraces, before our one line) is turned off for the process.
c10::intrusive_ptr<c10d::Store> connect_store(const LaunchEnv& env, std::chrono::milliseconds timeout);

// A view of a bare store with the prefix under which ranks of this attempt keep their keys.
c10::intrusive_ptr<c10d::Store> rank_keys(const c10::intrusive_ptr<c10d::Store>& store, int attempt);

}  // namespace trireme::comm
