// Which rank this process is, from the environment that torchrun, Slurm or `trireme --ranks` gives it. The environment
// is read once, in main, and handed in as a map.
#pragma once
#include <map>
#include <string>

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
  // Whether the launcher has said local_rank and local_world; where it has not, with_local_ranks() asks the other ranks.
  bool local_known = true;
  bool launcher_serves = false;  // the store; else rank 0 does
  bool serves_store = false;     // so this process does
  int attempt = 0;            // of a launcher that starts its ranks again, or of a job that was requeued
  std::string token;          // equal on all ranks of this run and on no others: part of every key in the store
  std::string note;           // what looks like a launch and is none, for a warning
  std::string interface;      // GLOO_SOCKET_IFNAME
  bool libtorch_log = false;  // TORCH_CPP_LOG_LEVEL or TORCH_DISTRIBUTED_DEBUG is set
  bool operator==(const LaunchEnv&) const = default;
};

// TRIREME_LAUNCHED decides first, then RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT where all four are set (torchrun, or
// a pod's), then a Slurm job step, else this is the only rank. Some of the four are no launch: `note` says so. A batch
// script outside `srun` is no job step. ConfigError names a variable that is malformed or contradicts another.
LaunchEnv parse_launch_env(const Environment& environment);

// What a command that runs on ranks is to do: 0: be the rank that a launcher has started; else start so many ranks on this
// host (1: be that rank itself). `requested` is --ranks (0: not given), `otherwise` what holds without it. A launcher that
// has started one rank only stands in nobody's way. ConfigError where `requested` contradicts a launch of several.
int ranks_to_start(const LaunchEnv& env, int requested, int otherwise);

// The rank that serves the store; -1: the launcher does.
int server_of(const LaunchEnv& env);

// The first host of a Slurm node list: "n[03-05,9],x1" -> "n03".
std::string first_host(const std::string& node_list);
// Tasks on the node with this index of a Slurm list: "4(x2),3" -> 4, 4, 3. ConfigError names `variable`.
int tasks_on_node(const std::string& tasks_per_node, int node, const std::string& variable);

}  // namespace trireme::comm
