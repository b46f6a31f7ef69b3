// A setting lowered at the grain of a chunk, priced and simulated: the search's second level.
#pragma once
#include "model/kernels.h"
#include "sim/simulate.h"
#include "sim/estimate/step_model.h"

namespace trireme::sim {

struct SimulatedLayout {
  plan::Plan plan;
  SimResult result;         // one list a stage, with its memory
  double needed_bytes = 0;  // of the heaviest stage, as MemoryEstimate counts
};

// Actions that the setting's plan would have, without making it.
double num_actions(const Setting& setting);

// `schedule`: the setting's.
SimulatedLayout simulate_layout(const Setting& setting, const plan::Schedule& schedule,
                                std::shared_ptr<const CompiledGrid> grid, const Rates& rates,
                                const model::Kernels& memory);

}  // namespace trireme::sim
