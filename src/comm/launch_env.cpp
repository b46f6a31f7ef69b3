#include "comm/launch_env.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/ranges.h>

#include "base/errors.h"

namespace trireme::comm {
namespace {

[[noreturn]] void fail(const std::string& variable, const std::string& value, const std::string& allowed) {
  throw ConfigError({.file = "environment", .key = variable, .value = value, .allowed = allowed});
}

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // An empty variable counts as absent.
  std::optional<std::string> get(const std::string& name) const {
    const auto found = environment_.find(name);
    if (found == environment_.end() || found->second.empty()) return std::nullopt;
    return found->second;
  }
  bool has(const std::string& name) const { return get(name).has_value(); }

  std::string required(const std::string& name, const std::string& why) const {
    if (auto value = get(name)) return *value;
    fail(name, "", "is not set, but needed: " + why);
  }

  std::int64_t number(const std::string& name, const std::string& why, std::int64_t least, std::int64_t most) const {
    const std::string text = required(name, why);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
      fail(name, text, fmt::format("an integer from {} to {}", least, most));
    return value;
  }

 private:
  const Environment& environment_;
};

constexpr std::int64_t most_ranks = 1 << 24;

void check_ranks(const LaunchEnv& e, const std::string& rank, const std::string& world, const std::string& local_rank,
                 const std::string& local_world) {
  if (e.rank >= e.world) fail(rank, std::to_string(e.rank), fmt::format("less than {} ({})", world, e.world));
  if (e.local_world > e.world)
    fail(local_world, std::to_string(e.local_world), fmt::format("at most {} ({})", world, e.world));
  if (e.local_rank >= e.local_world)
    fail(local_rank, std::to_string(e.local_rank), fmt::format("less than {} ({})", local_world, e.local_world));
  if (e.local_rank > e.rank)
    fail(local_rank, std::to_string(e.local_rank), fmt::format("at most {} ({})", rank, e.rank));
}

// The variables by which torchrun, and by which of them other launchers, say where a rank is among those of its host.
struct LocalNames {
  const char* rank;
  const char* world;
};
constexpr std::array<LocalNames, 4> local_names{{{"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
                                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                                 {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                                 {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"}}};

constexpr std::array<const char*, 4> launch_names{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

// Of the four: all are a launch; some are none, which is worth a word where RANK or WORLD_SIZE is among them.
bool is_launch(const Reader& in) {
  return std::all_of(launch_names.begin(), launch_names.end(), [&](const char* name) { return in.has(name); });
}

std::string half_a_launch(const Reader& in) {
  if (!in.has("RANK") && !in.has("WORLD_SIZE")) return {};
  std::vector<std::string> there, missing;
  for (const char* name : launch_names) (in.has(name) ? there : missing).push_back(name);
  return fmt::format("{} {} set but {} {} not: this is not taken for a launch of ranks", fmt::join(there, ", "),
                     there.size() == 1 ? "is" : "are", fmt::join(missing, ", "), missing.size() == 1 ? "is" : "are");
}

LaunchEnv from_torchrun(const Reader& in, bool ours) {
  const std::string why =
      ours ? "trireme --ranks sets it for the ranks that it starts"
           : "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say that a launcher has started this rank";
  LaunchEnv e;
  e.source = ours ? LaunchSource::trireme : LaunchSource::torchrun;
  e.world = static_cast<int>(in.number("WORLD_SIZE", why, 1, most_ranks));
  e.rank = static_cast<int>(in.number("RANK", why, 0, most_ranks));
  e.master_addr = in.required("MASTER_ADDR", why);
  e.master_port = static_cast<int>(in.number("MASTER_PORT", why, 1, 65535));
  LocalNames local = local_names[0];
  e.local_known = false;
  for (const LocalNames& names : local_names) {
    if (e.local_known || !in.has(names.rank) || !in.has(names.world)) continue;
    local = names;
    e.local_known = true;
    e.local_world = static_cast<int>(in.number(names.world, why, 1, most_ranks));
    e.local_rank = static_cast<int>(in.number(names.rank, why, 0, most_ranks));
  }
  check_ranks(e, "RANK", "WORLD_SIZE", local.rank, local.world);
  if (e.world == 1) e.local_known = true;
  const std::string attempt = ours ? "TRIREME_ATTEMPT" : "TORCHELASTIC_RESTART_COUNT";
  if (in.has(attempt)) e.attempt = static_cast<int>(in.number(attempt, why, 0, most_ranks));
  e.token = in.get("TRIREME_RUN_TOKEN").value_or(in.get("TORCHELASTIC_RUN_ID").value_or("run"));
  e.launcher_serves = ours || in.get("TORCHELASTIC_USE_AGENT_STORE") == "True";
  e.serves_store = !e.launcher_serves && e.rank == 0 && e.world > 1;
  return e;
}

// Slurm's name for what is not a step started by srun (SLURM_BATCH_SCRIPT, SLURM_EXTERN_CONT, ...: slurm.h).
constexpr std::int64_t first_special_step = 0xfffffff0;

bool is_slurm_step(const Reader& in) {
  if (!in.has("SLURM_PROCID")) return false;
  const std::string name = in.has("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  return in.has(name) && in.number(name, "", 0, INT64_MAX) < first_special_step;
}

LaunchEnv from_slurm(const Reader& in) {
  const std::string why = "SLURM_PROCID and SLURM_STEP_ID say that this is a task of a job step (srun)";
  LaunchEnv e;
  e.source = LaunchSource::slurm;
  const std::string world = in.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  e.world = static_cast<int>(in.number(world, why, 1, most_ranks));
  e.rank = static_cast<int>(in.number("SLURM_PROCID", why, 0, most_ranks));
  e.local_rank = static_cast<int>(in.number("SLURM_LOCALID", why, 0, most_ranks));

  std::string local_world = "SLURM_STEP_TASKS_PER_NODE";
  if (!in.has(local_world))
    local_world = in.has("SLURM_NTASKS_PER_NODE") ? "SLURM_NTASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  const int node = in.has("SLURM_NODEID") ? static_cast<int>(in.number("SLURM_NODEID", why, 0, most_ranks)) : 0;
  e.local_world = tasks_on_node(in.required(local_world, why), node, local_world);
  check_ranks(e, "SLURM_PROCID", world, "SLURM_LOCALID", local_world);

  if (const auto address = in.get("MASTER_ADDR")) {
    e.master_addr = *address;
  } else {
    std::string nodes = "SLURM_STEP_NODELIST";
    if (!in.has(nodes)) nodes = in.has("SLURM_JOB_NODELIST") ? "SLURM_JOB_NODELIST" : "SLURM_NODELIST";
    const std::string list = in.required(nodes, why);
    e.master_addr = first_host(list);
    if (e.master_addr.empty()) fail(nodes, list, "a list of hosts such as node[01-03,7]");
  }
  const std::string job = in.has("SLURM_JOB_ID") ? "SLURM_JOB_ID" : "SLURM_JOBID";
  const std::string step = in.has("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  if (in.has("MASTER_PORT")) {
    e.master_port = static_cast<int>(in.number("MASTER_PORT", why, 1, 65535));
  } else {
    // Below the ephemeral ports (32768 on Linux); two steps of one job that run together differ too.
    e.master_port = static_cast<int>(
        12000 + (in.number(job, why, 0, INT64_MAX / 8) * 7 + in.number(step, why, 0, first_special_step)) % 20000);
  }
  e.token = in.get("TRIREME_RUN_TOKEN")
                .value_or(fmt::format("slurm-{}-{}", in.get(job).value_or(""), in.get(step).value_or("")));
  if (in.has("SLURM_RESTART_COUNT")) e.attempt = static_cast<int>(in.number("SLURM_RESTART_COUNT", why, 0, most_ranks));
  e.serves_store = e.rank == 0 && e.world > 1;
  return e;
}

}  // namespace

const char* name_of(LaunchSource source) {
  switch (source) {
    case LaunchSource::torchrun:
      return "torchrun";
    case LaunchSource::slurm:
      return "slurm";
    case LaunchSource::trireme:
      return "trireme";
    case LaunchSource::single:
      break;
  }
  return "single";
}

LaunchEnv parse_launch_env(const Environment& environment) {
  const Reader in(environment);
  LaunchEnv e;
  const bool ours = in.has("TRIREME_LAUNCHED");
  if (ours || is_launch(in)) {
    e = from_torchrun(in, ours);
  } else if (is_slurm_step(in)) {
    e = from_slurm(in);
  } else {
    e.note = half_a_launch(in);
  }
  e.interface = in.get("GLOO_SOCKET_IFNAME").value_or("");
  e.libtorch_log = in.has("TORCH_CPP_LOG_LEVEL") || in.has("TORCH_DISTRIBUTED_DEBUG");
  return e;
}

int ranks_to_start(const LaunchEnv& env, int requested, int otherwise) {
  if (env.source == LaunchSource::trireme) return 0;
  if (env.world == 1) return requested > 0 ? requested : otherwise;
  if (requested > 0 && requested != env.world)
    throw ConfigError({.key = "--ranks",
                       .value = std::to_string(requested),
                       .allowed = fmt::format("{} has started {} ranks, each of which would start as many",
                                              name_of(env.source), env.world)});
  return 0;
}

int server_of(const LaunchEnv& env) {
  return env.launcher_serves ? -1 : 0;
}

std::string first_host(const std::string& node_list) {
  std::string host;
  for (std::size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
    if (node_list[i] != '[') {
      host += node_list[i];
      continue;
    }
    const auto end = node_list.find(']', i);
    if (end == std::string::npos) return {};
    host += node_list.substr(i + 1, node_list.find_first_of(",-]", i) - i - 1);
    i = end;
  }
  return host;
}

int tasks_on_node(const std::string& tasks_per_node, int node, const std::string& variable) {
  const auto malformed = [&] { fail(variable, tasks_per_node, "counts such as 4(x2),3"); };
  const auto number = [&](std::size_t& at) {
    int value = 0;
    const char* begin = tasks_per_node.data() + at;
    const auto [end, error] = std::from_chars(begin, tasks_per_node.data() + tasks_per_node.size(), value);
    if (error != std::errc() || value < 1) malformed();
    at += static_cast<std::size_t>(end - begin);
    return value;
  };
  int tasks = 0;
  for (std::size_t at = 0; at < tasks_per_node.size();) {
    tasks = number(at);
    int nodes = 1;
    if (tasks_per_node.compare(at, 2, "(x") == 0) {
      at += 2;
      nodes = number(at);
      if (at >= tasks_per_node.size() || tasks_per_node[at] != ')') malformed();
      ++at;
    }
    if (node < nodes) return tasks;
    node -= nodes;
    if (at < tasks_per_node.size() && tasks_per_node[at++] != ',') malformed();
  }
  if (tasks == 0) malformed();
  return tasks;  // SLURM_NTASKS_PER_NODE holds one number for all nodes
}

}  // namespace trireme::comm
