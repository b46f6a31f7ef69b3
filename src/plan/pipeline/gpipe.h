// GPipe (Huang et al., 2019): all forwards, then all backwards in reverse order of stages. In flight: all micro-batches.
#pragma once
#include "plan/pipeline/schedule.h"

namespace trireme::plan {

Schedule gpipe(int num_stages, int num_micro_batches);

// Forwards only: evaluation, of a model that lies on stages as a training schedule has it (`pieces`: its stage map). With
// several chunks a stage takes as many micro-batches of one after another as there are stages.
Schedule forward_only(int num_stages, int num_micro_batches, int num_chunks = 1, std::vector<std::vector<int>> pieces = {});

}  // namespace trireme::plan
