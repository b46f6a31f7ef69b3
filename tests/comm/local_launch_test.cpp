#include "comm/local_launch.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "comm/connect_store.h"
#include "comm/exit_codes.h"
#include "comm/group.h"
#include "comm/launch_env.h"
#include "comm/liveness.h"
#include "comm/rank_child.h"

extern char** environ;

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> environment;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    environment[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
  }
  return environment;
}

struct Outcome {
  int code = -1;
  std::string error;  // what the launcher and the ranks wrote to standard error
};

Outcome launch(LocalLaunch launch) {
  ::testing::internal::CaptureStderr();
  const int code = launch_local(launch);
  return {code, ::testing::internal::GetCapturedStderr()};
}

// Every rank runs this shell script.
Outcome launch_script(int ranks, const std::string& script, milliseconds timeout = milliseconds(20000)) {
  return launch({.ranks = ranks,
                 .arguments = {"sh", "-c", script},
                 .environment = own_environment(),
                 .timeout = timeout,
                 .executable = "/bin/sh"});
}

Outcome launch_script_again(int ranks, int restarts, const std::string& script) {
  return launch({.ranks = ranks,
                 .arguments = {"sh", "-c", script},
                 .environment = own_environment(),
                 .timeout = milliseconds(20000),
                 .executable = "/bin/sh",
                 .restarts = restarts,
                 .goes_on = [] { return "from step 40"; }});
}

class LocalLaunchFiles : public ::testing::Test {
 protected:
  LocalLaunchFiles() : folder_(::testing::TempDir() + "trireme_launch_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~LocalLaunchFiles() override { std::filesystem::remove_all(folder_); }
  std::string read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};

TEST_F(LocalLaunchFiles, RanksGetTheirEnvironmentAndNoStandardInput) {
  const auto outcome = launch_script(
      3, "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $TRIREME_LAUNCHED $(cat | wc -c) > " +
             folder_.string() + "/$RANK");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.error, "");
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(read(std::to_string(rank)), fmt::format("{0} 3 {0} 3 127.0.0.1 1 0\n", rank));
}

TEST(LocalLaunch, ThreadsAreSharedOut) {
  const LocalLaunch four{.ranks = 4, .arguments = {"x"}};
  // 16 cores / 4 ranks: 4 threads each. They wait asleep, on an idle host too.
  auto set = rank_environment(four, {.rank = 2, .port = 1234, .cores = 16});
  EXPECT_EQ(set["OMP_NUM_THREADS"], "4");
  EXPECT_EQ(set["OMP_WAIT_POLICY"], "passive");
  EXPECT_EQ(set["GOMP_SPINCOUNT"], "0");
  // 2 cores / 4 ranks: at least one thread each.
  set = rank_environment(four, {.rank = 2, .port = 1234, .cores = 2});
  EXPECT_EQ(set["OMP_NUM_THREADS"], "1");
  // What the user says stays.
  set = rank_environment({.ranks = 4, .arguments = {"x"}, .environment = {{"OMP_NUM_THREADS", "8"}, {"OMP_WAIT_POLICY", "active"}}},
                         {.port = 1234, .cores = 16});
  EXPECT_FALSE(set.contains("OMP_NUM_THREADS"));
  EXPECT_FALSE(set.contains("OMP_WAIT_POLICY"));
  EXPECT_EQ(set["MASTER_PORT"], "1234");
}

TEST(LocalLaunch, ExitCodesAreSummedUp) {
  EXPECT_EQ(launch_script(2, "exit 0").code, exit_ok);
  const auto bad = launch_script(2, "exit 2");
  EXPECT_EQ(bad.code, exit_bad_input);
  EXPECT_THAT(bad.error, HasSubstr("found bad input (exit code 2)"));
  EXPECT_EQ(launch_script(2, "exit 3").code, exit_runtime_failure);
  EXPECT_EQ(launch_script(2, "exit 1").code, exit_bug);
  EXPECT_EQ(launch_script(2, "exit 77").code, exit_runtime_failure);
  // A rank that fails because another one refused its input does not hide that.
  EXPECT_EQ(launch_script(2, "[ $RANK = 0 ] && exit 2; sleep 0.3; exit 3").code, exit_bad_input);
}

TEST(LocalLaunch, TheKilledRankIsNamedAndNotThoseThatFollow) {
  const auto outcome = launch_script(3, "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 0.5; exit 3");
  EXPECT_EQ(outcome.code, exit_runtime_failure);
  EXPECT_EQ(
      outcome.error,
      "trireme: failed: rank 1 was the first to fail: killed by signal 9 (Killed); rank 0 failed (exit code 3), rank "
      "2 failed (exit code 3)\n");
}

TEST(LocalLaunch, RanksThatDoNotEndAreEnded) {
  // Rank 0 fails; rank 1 would sleep for an hour; rank 2 does not even heed SIGTERM. What they started ends with them:
  // else this test's standard output would stay open for an hour.
  const auto outcome = launch_script(
      3, "if [ $RANK = 0 ]; then exit 3; fi; if [ $RANK = 2 ]; then trap '' TERM; fi; sleep 3600 & wait $!; sleep 3600",
      milliseconds(300));
  EXPECT_EQ(outcome.code, exit_runtime_failure);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("rank 0 was the first to fail: failed (exit code 3)"),
                                   HasSubstr("rank 2 killed by signal 9 (Killed)")));
}

TEST(LocalLaunch, AStopSignalIsPassedOn) {
  // To this thread, which launches: other tests have left threads that would take a signal to the whole process.
  std::thread user([launcher = pthread_self()] {
    std::this_thread::sleep_for(milliseconds(1000));
    pthread_kill(launcher, SIGINT);
  });
  // Each rank saves and ends well when told to.
  const auto outcome = launch_script(2, "trap 'exit 0' INT; while true; do sleep 0.05; done");
  user.join();
  EXPECT_EQ(outcome.code, exit_ok);
  EXPECT_EQ(outcome.error, "trireme: asks the ranks to stop; again to kill them\n");
}

TEST(LocalLaunch, AStoppedRunIsNeitherFinishedNorFailed) {
  // As ranks end that have heeded a signal: 75.
  const auto outcome = launch_script(2, "exit 75");
  EXPECT_EQ(outcome.code, exit_stopped);
  EXPECT_EQ(outcome.error, "");
  // One that fails meanwhile is a failure all the same.
  EXPECT_EQ(launch_script(2, "[ $RANK = 0 ] && exit 3; exit 75").code, exit_runtime_failure);
}

TEST(LocalLaunch, AStopBeforeTheRanksHeedItEndsAll) {
  std::thread user([launcher = pthread_self()] {
    std::this_thread::sleep_for(milliseconds(1000));
    pthread_kill(launcher, SIGTERM);
  });
  // Rank 0 heeds it and would then wait for rank 1, which has died of it.
  const auto outcome = launch_script(2, "[ $RANK = 0 ] && trap '' TERM; while true; do sleep 0.05; done");
  user.join();
  EXPECT_EQ(outcome.code, exit_killed_on_request);
  EXPECT_THAT(outcome.error, HasSubstr("stopped before the ranks had begun to train"));
}

TEST(LocalLaunch, RanksStartAgainAfterADeath) {
  // The second attempt ends well. Each has a store of its own.
  const auto outcome = launch_script_again(2, 3, "[ $RANK = 1 ] && [ $TRIREME_ATTEMPT = 0 ] && kill -9 $$; exit 0");
  EXPECT_EQ(outcome.code, exit_ok);
  EXPECT_EQ(outcome.error,
            "trireme: rank 1 was the first to fail: killed by signal 9 (Killed); restart 1 of 3: all ranks start again from "
            "step 40\n"
            "trireme: ended after 1 of 3 restarts\n");
}

TEST(LocalLaunch, RestartsAreCountedAndEnd) {
  const auto outcome = launch_script_again(1, 2, "kill -9 $$");
  EXPECT_EQ(outcome.code, exit_runtime_failure);
  EXPECT_THAT(outcome.error, HasSubstr("restart 2 of 2"));
  EXPECT_THAT(outcome.error, HasSubstr("failed after 2 of 2 restarts: rank 0 was the first to fail: killed by signal 9 (Killed)\n"));
}

TEST(LocalLaunch, NothingStartsAgainAfterBadInputOrAStop) {
  const auto bad = launch_script_again(2, 3, "exit 2");
  EXPECT_EQ(bad.code, exit_bad_input);
  EXPECT_EQ(bad.error.find("restart"), std::string::npos) << bad.error;
  const auto stopped = launch_script_again(2, 3, "exit 75");
  EXPECT_EQ(stopped.code, exit_stopped);
  EXPECT_EQ(stopped.error, "");
}

// A rank says by its code that another start would end so, too.
TEST(LocalLaunch, NothingStartsAgainAfterAFinalFailure) {
  const auto outcome = launch_script_again(2, 3, "if [ $RANK = 1 ]; then exit 4; fi; sleep 1; exit 3");
  EXPECT_EQ(outcome.code, exit_runtime_failure);
  EXPECT_EQ(outcome.error,
            "trireme: failed: rank 1 was the first to fail: failed (exit code 3); rank 0 failed (exit code 3); not started "
            "again: it would end in the same way\n");
}

TEST(LocalLaunch, AProgramThatCannotBeStarted) {
  EXPECT_THROW(launch_local({.ranks = 2, .arguments = {"x"}, .executable = "/nonexistent/program"}), RuntimeFailure);
}

// What a real rank does; run in processes of this very program by the test below.
TEST(LaunchedRank, DISABLED_Body) {
  const auto environment = own_environment();
  end_with_launcher(environment);
  const LaunchEnv env = parse_launch_env(environment);
  const auto store = connect_store(env, milliseconds(20000));
  std::atomic<Communicator*> to_abort{nullptr};
  Liveness liveness(
      store, {.rank = env.rank, .world = env.world, .interval = milliseconds(50), .timeout = milliseconds(60000)},
      [&](const DeadRank&) {
        if (auto* communicator = to_abort.load()) communicator->abort();
      });
  Communicator communicator(
      store, {.rank = env.rank, .mesh = {.dp = env.world}, .timeout = milliseconds(300000), .liveness = &liveness});
  to_abort = &communicator;
  at::Tensor x = at::ones({10});
  try {
    for (int step = 0;; ++step) {
      if (env.rank == 2 && step == 3) kill(getpid(), SIGKILL);
      all_reduce(communicator.group(Axis::dp), x, ReduceOp::max, "loss of step " + std::to_string(step));
    }
  } catch (const RuntimeFailure& failure) {
    std::ofstream(environment.at("TRIREME_TEST_FOLDER") + "/" + std::to_string(env.rank)) << failure.what();
    to_abort = nullptr;
    _exit(exit_runtime_failure);
  }
}

// Ranks that only beat; rank 1 stops itself, and the others end when they hear of its death.
TEST(LaunchedRank, DISABLED_Beats) {
  const auto environment = own_environment();
  end_with_launcher(environment);
  const LaunchEnv env = parse_launch_env(environment);
  const auto store = connect_store(env, milliseconds(20000));
  Liveness liveness(store, {.rank = env.rank, .world = env.world, .interval = milliseconds(50), .timeout = milliseconds(3000)}, nullptr);
  if (env.rank == 1) kill(getpid(), SIGSTOP);
  while (!liveness.dead()) std::this_thread::sleep_for(milliseconds(20));
  _exit(exit_runtime_failure);
}

// A rank that reads and reads: nothing in it looks at signals, stores or parents.
TEST(LaunchedRank, DISABLED_Reads) {
  const auto environment = own_environment();
  end_with_launcher(environment);
  std::ofstream(environment.at("TRIREME_TEST_FOLDER") + "/" + environment.at("RANK")) << getpid() << "\n";
  for (int ends[2]; pipe(ends) == 0;) {
    char byte = 0;
    if (read(ends[0], &byte, 1) < 0) continue;
  }
}

// And its launcher, to be killed.
TEST(LaunchedRank, DISABLED_Launcher) {
  auto environment = own_environment();
  launch_local({.ranks = 2, .arguments = {"comm_test", "--gtest_filter=LaunchedRank.DISABLED_Reads", "--gtest_also_run_disabled_tests"},
                .environment = environment});
}

std::map<std::string, std::string> environment_of_ranks(const std::filesystem::path& folder) {
  auto environment = own_environment();
  environment["TRIREME_TEST_FOLDER"] = folder.string();
  for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_OUTPUT"}) environment.erase(name);
  return environment;
}

TEST_F(LocalLaunchFiles, AStoppedRankIsTheFirstToFailAlthoughItEndsLast) {
  const auto outcome = launch({.ranks = 3,
                               .arguments = {"comm_test", "--gtest_filter=LaunchedRank.DISABLED_Beats",
                                             "--gtest_also_run_disabled_tests", "--gtest_brief=1"},
                               .environment = environment_of_ranks(folder_),
                               .timeout = std::chrono::hours(1)});  // nobody waits for that: the others have left it
  EXPECT_EQ(outcome.code, exit_runtime_failure);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("rank 1 was the first to fail: no heartbeat"), HasSubstr("rank 0 failed (exit code 3)"),
                                   HasSubstr("rank 2 failed (exit code 3)")));
}

TEST_F(LocalLaunchFiles, RanksEndWithAKilledLauncher) {
  const auto environment = environment_of_ranks(folder_);
  RankChild launcher({.arguments = {"comm_test", "--gtest_filter=LaunchedRank.DISABLED_Launcher", "--gtest_also_run_disabled_tests"},
                      .environment = environment});
  std::vector<pid_t> ranks;
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (int rank = 0; rank < 2; ++rank)
    while (std::chrono::steady_clock::now() < end) {
      const std::string text = read(std::to_string(rank));
      if (!text.empty() && text.back() == '\n') {
        ranks.push_back(std::stoi(text));
        break;
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
  ASSERT_EQ(ranks.size(), 2u);
  launcher.send(SIGKILL);  // to its process group, in which the ranks are not
  const auto runs = [](pid_t pid) {
    // One that has ended, but that nobody has asked for yet, is state Z.
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    return static_cast<bool>(in >> number >> name >> state) && state != "Z";
  };
  for (const pid_t rank : ranks)
    while (runs(rank) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(10));
  for (const pid_t rank : ranks) EXPECT_FALSE(runs(rank));
  while (!launcher.reap()) std::this_thread::sleep_for(milliseconds(10));
}

TEST_F(LocalLaunchFiles, AKilledRankEndsTheRunAndAllSurvivorsNameIt) {
  auto environment = own_environment();
  environment["TRIREME_TEST_FOLDER"] = folder_.string();
  for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_OUTPUT"}) environment.erase(name);
  const auto outcome = launch({.ranks = 4,
                               .arguments = {"comm_test", "--gtest_filter=LaunchedRank.DISABLED_Body",
                                             "--gtest_also_run_disabled_tests", "--gtest_brief=1"},
                               .environment = environment});
  EXPECT_EQ(outcome.code, exit_runtime_failure);
  EXPECT_THAT(outcome.error, HasSubstr("rank 2 was the first to fail: killed by signal 9 (Killed)"));
  for (const std::string rank : {"0", "1", "3"})
    EXPECT_THAT(read(rank),
                AllOf(HasSubstr("rank 2: killed by signal 9 (Killed)"),
                      HasSubstr("[operation all_reduce loss of step 3]"), HasSubstr("[group dp {0,1,2,3}]")));
}

}  // namespace
}  // namespace trireme::comm
