// One rank of an evaluation, from its place in the launch to what rank 0 prints.
#pragma once
#include "comm/launch_env.h"
#include "trireme/commands.h"
#include "trireme/evaluated_run.h"

namespace trireme::apps {

// What can be wrong without any rank running: files, vocabulary, the mesh, the model. ConfigError.
void check_evaluation(const EvaluatedRun& evaluated);

// Returns the exit code. A failure is told to the other ranks before it is thrown on.
int evaluate_rank(const EvaluatedRun& evaluated, bool json, const comm::LaunchEnv& env, const Context& context);

}  // namespace trireme::apps
