// Where the phases of a step's exchanges lie on a rank's timeline.
#pragma once
#include <vector>

#include "plan/plan.h"
#include "plan/timeline.h"

namespace trireme::sim {

// An exchange that took longer than its price waited for a partner, which shows where a run would measure it: in the
// phases that wait for nobody's phase before. One that took less has all of its phases shortened alike.
std::vector<plan::PhaseSpan> predicted_phases(const plan::Plan& plan, const plan::Costs& costs,
                                              const plan::RankTimeline& timeline);

}  // namespace trireme::sim
