// A run's plan and price, as `trireme plan` prints and `trireme train` executes it.
#pragma once
#include <string>
#include <vector>
#include <vector>

#include "plan/run_spec.h"
#include "platform/platform_spec.h"
#include "sim/price.h"

namespace trireme::apps {

struct RunPlan {
  plan::RunSpec run;  // with the pattern's name in place of "auto"
  plan::Plan plan;
  sim::Predicted predicted;
  std::string stack;  // that a data sheet's machine is run with; empty: none that anybody measured, or a probed machine
  std::vector<std::string> assumptions;  // what nobody gave, one line each
};

struct RunPlanOptions {
  std::string keep;  // instead of the fastest pattern: a resumed run goes on as it began
  sim::Software software;  // of a data sheet's machine
};

// Hosts that the mesh does not know are the platform's: host.ranks on each, host.nodes_per_group to a switch; on a data
// sheet the devices of a node and of the level after it. With
// layout.all_to_all = "auto" the fastest pattern is taken and Prediction::patterns filled in.
RunPlan make_run_plan(const plan::RunSpec& run, plan::Mesh mesh, const platform::PlatformSpec& platform,
                      const RunPlanOptions& options = {});

}  // namespace trireme::apps
