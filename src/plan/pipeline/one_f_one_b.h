// 1F1B (PipeDream-flush; Narayanan et al., 2021): stage s warms up with stages - 1 - s forwards, then alternates.
// In flight: at most stages - s micro-batches.
#pragma once
#include "plan/pipeline/schedule.h"

namespace trireme::plan {

Schedule one_f_one_b(int num_stages, int num_micro_batches);




}  // namespace trireme::plan
