// One rank of a rehearsal, from its place in the launch to what rank 0 prints.
#pragma once
#include <string>
#include <vector>

#include "comm/launch_env.h"
#include "plan/run_spec.h"
#include "trireme/context.h"

namespace trireme::apps {

struct RehearseOptions {
  std::string config, platform, stack, load = "platform";
  std::string html, trace;  // files; empty: none
  std::vector<std::string> set;
  int ranks = 0, steps = 5;
  bool json = false;
};

// What can be wrong without any rank running: the run's file, the mesh, the device, where to write. ConfigError.
plan::RunSpec check_rehearsal(const RehearseOptions& options, int num_ranks);

// Returns the exit code. A failure is told to the other ranks before it is thrown on, by one of them.
int rehearse_rank(const RehearseOptions& options, const plan::RunSpec& run, const comm::LaunchEnv& env, const Context& context);

}  // namespace trireme::apps
