#include "comm/launch_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"

namespace trireme::comm {
namespace {

using ::testing::HasSubstr;

// As `torchrun --nproc_per_node 2 --nnodes 2` sets them on the second node.
const Environment torchrun{{"RANK", "3"},
                           {"WORLD_SIZE", "4"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "node1"},
                           {"MASTER_PORT", "29500"},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                           {"TORCHELASTIC_RESTART_COUNT", "1"},
                           {"GROUP_RANK", "1"}};

// As `srun` sets them for the fifth of eight tasks, four a node.
const Environment slurm{{"SLURM_PROCID", "4"},
                        {"SLURM_NTASKS", "8"},
                        {"SLURM_LOCALID", "0"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_JOB_ID", "1000"},
                        {"SLURM_TASKS_PER_NODE", "4(x2)"},
                        {"SLURM_JOB_NODELIST", "node[01-02]"}};

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

std::string error_of(const Environment& environment) {
  try {
    parse_launch_env(environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(LaunchEnv, NothingSetIsASingleRank) {
  EXPECT_EQ(parse_launch_env({}), LaunchEnv{});
  EXPECT_EQ(parse_launch_env({{"PATH", "/bin"}, {"MASTER_ADDR", "x"}}), LaunchEnv{});
}

TEST(LaunchEnv, Torchrun) {
  const LaunchEnv e = parse_launch_env(torchrun);
  EXPECT_EQ(e, (LaunchEnv{.rank = 3,
                          .world = 4,
                          .local_rank = 1,
                          .local_world = 2,
                          .master_addr = "node1",
                          .master_port = 29500,
                          .source = LaunchSource::torchrun,
                          .launcher_serves = true,
                          .attempt = 1,
                          .token = "run"}));
  EXPECT_EQ(parse_launch_env(with(torchrun, "TORCHELASTIC_RUN_ID", "job-7")).token, "job-7");
  EXPECT_EQ(parse_launch_env(with(torchrun, "TRIREME_RUN_TOKEN", "secret")).token, "secret");
  // Its agent serves the store, unless it says otherwise: then rank 0 does.
  Environment zero = with(with(torchrun, "RANK", "0"), "LOCAL_RANK", "0");
  EXPECT_FALSE(parse_launch_env(zero).serves_store);
  EXPECT_TRUE(parse_launch_env(with(zero, "TORCHELASTIC_USE_AGENT_STORE", "False")).serves_store);
  EXPECT_TRUE(parse_launch_env(without(zero, "TORCHELASTIC_USE_AGENT_STORE")).serves_store);
  EXPECT_FALSE(parse_launch_env(without(torchrun, "TORCHELASTIC_USE_AGENT_STORE")).serves_store) << "rank 3";
}

TEST(LaunchEnv, OwnLauncherServesTheStore) {
  Environment zero = with(with(torchrun, "RANK", "0"), "LOCAL_RANK", "0");
  zero = with(without(zero, "TORCHELASTIC_USE_AGENT_STORE"), "TRIREME_LAUNCHED", "1");
  const LaunchEnv e = parse_launch_env(zero);
  EXPECT_EQ(e.source, LaunchSource::trireme);
  EXPECT_FALSE(e.serves_store);
  EXPECT_THAT(error_of({{"TRIREME_LAUNCHED", "1"}}), HasSubstr("environment: WORLD_SIZE: is not set"));
  // It counts its attempts itself: torchrun's count around it is another one.
  EXPECT_EQ(e.attempt, 0);
  EXPECT_EQ(parse_launch_env(with(zero, "TRIREME_ATTEMPT", "2")).attempt, 2);
}

TEST(LaunchEnv, APodOrAnMpiJobNeedsNoLocalRanks) {
  // As a Kubernetes job of PyTorch pods sets them: a rank a pod.
  Environment pod = torchrun;
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"}) pod.erase(name);
  const LaunchEnv e = parse_launch_env(pod);
  EXPECT_EQ(e.source, LaunchSource::torchrun);
  EXPECT_EQ(e.rank, 3);
  EXPECT_FALSE(e.local_known);
  EXPECT_EQ(e.local_world, 1);
  // Half of the pair says nothing.
  EXPECT_FALSE(parse_launch_env(with(pod, "LOCAL_RANK", "1")).local_known);
  // As Open MPI's and Intel MPI's launchers say it.
  const LaunchEnv open_mpi = parse_launch_env(with(with(pod, "OMPI_COMM_WORLD_LOCAL_RANK", "1"), "OMPI_COMM_WORLD_LOCAL_SIZE", "2"));
  EXPECT_TRUE(open_mpi.local_known);
  EXPECT_EQ(open_mpi.local_rank, 1);
  EXPECT_EQ(open_mpi.local_world, 2);
  EXPECT_EQ(parse_launch_env(with(with(pod, "MPI_LOCALRANKID", "1"), "MPI_LOCALNRANKS", "4")).local_world, 4);
}

TEST(LaunchEnv, HalfALaunchersEnvironmentIsNoLauncher) {
  for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    const LaunchEnv e = parse_launch_env(without(torchrun, name));
    EXPECT_EQ(e.source, LaunchSource::single) << name;
    EXPECT_EQ(e.world, 1);
    EXPECT_THAT(e.note, HasSubstr("set but " + name + " is not")) << "and that is said";
  }
  EXPECT_THAT(parse_launch_env({{"WORLD_SIZE", "8"}}).note, HasSubstr("WORLD_SIZE is set but RANK, MASTER_ADDR, MASTER_PORT are not"));
  // It does not hide Slurm.
  EXPECT_EQ(parse_launch_env(with(slurm, "WORLD_SIZE", "3")).source, LaunchSource::slurm);
  EXPECT_EQ(parse_launch_env(with(slurm, "WORLD_SIZE", "3")).world, 8);
  EXPECT_EQ(parse_launch_env(with(slurm, "RANK", "3")).rank, 4);
}

TEST(LaunchEnv, AnExplicitNumberOfRanksComesFirst) {
  EXPECT_EQ(ranks_to_start({}, 0, 4), 4);  // as the layout wants
  EXPECT_EQ(ranks_to_start({}, 2, 4), 2);
  // A step of one task is a shell, or a job that starts its own ranks.
  const Environment one = with(with(with(slurm, "SLURM_NTASKS", "1"), "SLURM_PROCID", "0"), "SLURM_TASKS_PER_NODE", "1");
  EXPECT_EQ(ranks_to_start(parse_launch_env(one), 2, 4), 2);
  EXPECT_EQ(ranks_to_start(parse_launch_env(one), 0, 4), 4);
  // In a launch of several each is a rank of it; as many as there are may be said again.
  EXPECT_EQ(ranks_to_start(parse_launch_env(slurm), 0, 4), 0);
  EXPECT_EQ(ranks_to_start(parse_launch_env(slurm), 8, 4), 0);
  EXPECT_THROW(ranks_to_start(parse_launch_env(slurm), 2, 4), ConfigError);
  // The ranks of our own launcher see its command line.
  EXPECT_EQ(ranks_to_start({.world = 1, .source = LaunchSource::trireme}, 1, 4), 0);
}

TEST(LaunchEnv, Slurm) {
  const LaunchEnv e = parse_launch_env(slurm);
  EXPECT_EQ(e.rank, 4);
  EXPECT_EQ(e.world, 8);
  EXPECT_EQ(e.local_rank, 0);
  EXPECT_EQ(e.local_world, 4);
  EXPECT_EQ(e.master_addr, "node01");
  EXPECT_EQ(e.master_port, 12000 + 7 * 1000);  // 12000 + (7 job + step) mod 20000
  EXPECT_EQ(e.source, LaunchSource::slurm);
  EXPECT_EQ(e.token, "slurm-1000-0");
  EXPECT_EQ(parse_launch_env(with(slurm, "SLURM_RESTART_COUNT", "2")).attempt, 2);
  EXPECT_FALSE(e.serves_store);
  EXPECT_TRUE(parse_launch_env(with(slurm, "SLURM_PROCID", "0")).serves_store);
  EXPECT_NE(parse_launch_env(with(slurm, "SLURM_STEP_ID", "1")).master_port, e.master_port);
  EXPECT_EQ(parse_launch_env(with(slurm, "SLURM_JOB_ID", "123456789")).master_port, 12000 + 7 * 123456789 % 20000);
  EXPECT_EQ(parse_launch_env(with(slurm, "MASTER_ADDR", "10.0.0.1")).master_addr, "10.0.0.1");
  EXPECT_EQ(parse_launch_env(with(slurm, "MASTER_PORT", "4000")).master_port, 4000);
  // The step's own values go before the job's.
  EXPECT_EQ(parse_launch_env(with(slurm, "SLURM_STEP_NODELIST", "node[02]")).master_addr, "node02");
  EXPECT_EQ(parse_launch_env(with(slurm, "SLURM_STEP_NUM_TASKS", "6")).world, 6);
}

TEST(LaunchEnv, ABatchScriptIsNoJobStep) {
  EXPECT_EQ(parse_launch_env(without(slurm, "SLURM_STEP_ID")).world, 1);
  EXPECT_EQ(parse_launch_env(with(slurm, "SLURM_STEP_ID", "4294967291")).world, 1);  // SLURM_BATCH_SCRIPT
}

TEST(LaunchEnv, TorchrunInsideSlurmIsTorchrun) {
  Environment both = slurm;
  both.insert(torchrun.begin(), torchrun.end());
  EXPECT_EQ(parse_launch_env(both).source, LaunchSource::torchrun);
  EXPECT_EQ(parse_launch_env(both).rank, 3);
}

TEST(LaunchEnv, TheInterfaceIsTakenAlong) {
  EXPECT_EQ(parse_launch_env({{"GLOO_SOCKET_IFNAME", "ib0"}}).interface, "ib0");
}

TEST(LaunchEnv, WhatIsMissingIsNamed) {
  for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    EXPECT_THAT(error_of(with(without(torchrun, name), "TRIREME_LAUNCHED", "1")),
                HasSubstr("environment: " + name + ": is not set, but needed"));
  for (const std::string name : {"SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"})
    EXPECT_THAT(error_of(without(slurm, name)), HasSubstr("environment: " + name + ": is not set"));
  EXPECT_THAT(error_of(without(slurm, "SLURM_JOB_NODELIST")), HasSubstr("environment: SLURM_NODELIST: is not set"));
}

TEST(LaunchEnv, WhatIsMalformedOrContradictsIsNamed) {
  struct Case {
    Environment environment;
    std::string error;
  };
  const std::vector<Case> cases{
      {with(torchrun, "RANK", "two"), "environment: RANK = two: an integer from 0"},
      {with(torchrun, "RANK", "-1"), "environment: RANK = -1: an integer from 0"},
      {with(torchrun, "RANK", "4"), "environment: RANK = 4: less than WORLD_SIZE (4)"},
      {with(torchrun, "WORLD_SIZE", "0"), "environment: WORLD_SIZE = 0: an integer from 1"},
      {with(torchrun, "LOCAL_RANK", "2"), "environment: LOCAL_RANK = 2: less than LOCAL_WORLD_SIZE (2)"},
      {with(torchrun, "LOCAL_WORLD_SIZE", "5"), "environment: LOCAL_WORLD_SIZE = 5: at most WORLD_SIZE (4)"},
      {with(torchrun, "RANK", "0"), "environment: LOCAL_RANK = 1: at most RANK (0)"},
      {with(torchrun, "MASTER_PORT", "70000"), "environment: MASTER_PORT = 70000: an integer from 1 to 65535"},
      {with(slurm, "SLURM_PROCID", "8"), "environment: SLURM_PROCID = 8: less than SLURM_NTASKS (8)"},
      {with(slurm, "SLURM_LOCALID", "4"), "environment: SLURM_LOCALID = 4: less than SLURM_TASKS_PER_NODE (4)"},
      {with(slurm, "SLURM_TASKS_PER_NODE", "4(2)"), "environment: SLURM_TASKS_PER_NODE = 4(2): counts such as 4(x2),3"},
      {with(slurm, "SLURM_JOB_NODELIST", "node[01"), "environment: SLURM_JOB_NODELIST = node[01: a list of hosts"},
  };
  for (const Case& c : cases) EXPECT_THAT(error_of(c.environment), HasSubstr(c.error));
}

TEST(LaunchEnv, FirstHostOfANodeList) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"localhost", "localhost"},
      {"a,b,c", "a"},
      {"node[01-03,7]", "node01"},
      {"node[7,01-03]", "node7"},
      {"node[12]", "node12"},
      {"n1,node[01-03]", "n1"},
      {"rack[2-3]n[08-11]-ib", "rack2n08-ib"},
  };
  for (const auto& [list, host] : cases) EXPECT_EQ(first_host(list), host) << list;
}

TEST(LaunchEnv, TasksOnEachNode) {
  // 4 on nodes 0 and 1, 3 on node 2.
  const std::vector<int> expected{4, 4, 3};
  for (int node = 0; node < 3; ++node)
    EXPECT_EQ(tasks_on_node("4(x2),3", node, "X"), expected[static_cast<std::size_t>(node)]);
  EXPECT_EQ(tasks_on_node("8", 5, "X"), 8);  // one number for all
}

}  // namespace
}  // namespace trireme::comm
