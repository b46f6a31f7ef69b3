// What rank 0 works out before a rehearsal: the plan, how rows fall on experts, how long each rank waits for what.
#pragma once
#include <string>

#include "sim/rehearsal.h"
#include "trireme/context.h"
#include "trireme/rehearsal_load.h"
#include "trireme/run_plan.h"

namespace trireme::apps {

struct RehearsalPlan {
  RunPlan planned;  // its prediction is of a training step with this load
  RehearsalLoad load;
  sim::Rehearsal rehearsal;
};

struct RehearsalQuestion {
  std::string platform, stack, load;  // as the command's options of the same names
};

// A mesh that knows its hosts keeps them; else they are the platform's. ConfigError.
RehearsalPlan make_rehearsal_plan(const plan::RunSpec& run, const plan::Mesh& mesh, const RehearsalQuestion& question,
                                  const Context& context);

}  // namespace trireme::apps
