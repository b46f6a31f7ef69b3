// What a rehearsal of a plan does and takes: the plan's messages for real, and for its compute a wait that is as long as the
// plan's prediction says.
#pragma once
#include <vector>

#include "sim/price.h"

namespace trireme::sim {

struct Rehearsal {
  // Of every rank, by action: how long it waits for an action of its compute and copy lanes, as in the predicted step: load,
  // noise and shared cores included. 0 for messages.
  std::vector<std::vector<double>> wait_s;
  // Of the rehearsal. Waits take no core, so on ranks that share cores messages are faster than in a step that computes;
  // with a device to each rank this is the plan's own prediction. Memory and its peaks are the plan's.
  plan::Prediction prediction;
};

// `predicted`: of this plan, run, platform and software.
Rehearsal plan_rehearsal(const plan::Plan& plan, const plan::RunSpec& run, const platform::PlatformSpec& platform,
                         const Software& software, const Predicted& predicted);

}  // namespace trireme::sim
