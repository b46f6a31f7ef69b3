// The life of one rank of a training run, from its place in the launch to its last file.
#pragma once
#include "base/errors.h"
#include "comm/launch_env.h"
#include "plan/run_spec.h"
#include "train/trainer.h"
#include "trireme/context.h"

namespace trireme::apps {

struct RankOptions {
  plan::RunSpec run;
  std::string platform;                       // --platform; empty: what the run names
  train::Resume resume = train::Resume::never;
  bool force = false;                         // start where memory does not suffice
  bool json = false;                          // rank 0: one JSON object a step on standard output
};

// What can be wrong without any rank running: data files and vocabulary, the mesh, checkpoints to resume from or in the
// way. ConfigError.
void check_before_launch(const RankOptions& options, int num_ranks);

// For a rank of a launch of several that has found bad input before it knows the others: ranks that find the same tell it
// once, so this throws it on, or returns the exit code.
int refuse(const ConfigError& error, const comm::LaunchEnv& env);

// Trains; returns the exit code. A failure is told to the other ranks before it is thrown on, by one of them.
int run_rank(const RankOptions& options, const comm::LaunchEnv& env, const Context& context);

}  // namespace trireme::apps
