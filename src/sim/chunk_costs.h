// The price of a plan at the grain of a chunk (plan/lowering/chunk_passes.h): slots, messages and copies take what the grid
// of the search is executed with, buffers and workspaces hold what its walk over the slots counts.
#pragma once
#include "plan/plan.h"
#include "sim/estimate/stage_memory.h"
#include "sim/estimate/step_model.h"

namespace trireme::sim {

// `model`: of the plan's layout and schedule. `holdings`: of its stages.
plan::Costs chunk_costs(const plan::Plan& plan, const StepModel& model, const Rates& rates,
                        const std::vector<StageHoldings>& holdings);

}  // namespace trireme::sim
