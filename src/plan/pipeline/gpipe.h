// GPipe (Huang et al., 2019): all forwards, then all backwards in reverse order of stages. In flight: all micro-batches.
#pragma once
#include "plan/pipeline/schedule.h"

namespace trireme::plan {

Schedule gpipe(int num_stages, int num_micro_batches);

// Forwards only: evaluation.
Schedule forward_only(int num_stages, int num_micro_batches);

}  // namespace trireme::plan
