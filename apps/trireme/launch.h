// This process among the ranks of a launch, and `--ranks N`: this command line again, as N ranks on this host.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "comm/launch_env.h"
#include "trireme/context.h"

namespace trireme::apps {

// What the environment says of this process; warns of half a launcher's variables. A rank that `trireme` itself has
// started ends from here on when its launcher does. Call it first of all. ConfigError as comm::parse_launch_env.
comm::LaunchEnv find_place(const Context& context);

// For a process that will be a rank: its threads wait for work asleep (comm/thread_waiting.h). libgomp reads that when it
// is loaded, so the program may start itself again here, once, in this same process. Nothing may have been done before.
void wait_asleep(const Context& context);

struct LocalRanks {
  int ranks = 1;
  std::chrono::milliseconds timeout{60000};
  int restarts = 0;
  std::function<std::string()> goes_on;  // for the message of a restart: from where
};

// Blocks until all ranks have ended; returns the exit code for main. The ranks find LaunchSource::trireme in their place.
int launch_local(const LocalRanks& local, const Context& context);

}  // namespace trireme::apps
