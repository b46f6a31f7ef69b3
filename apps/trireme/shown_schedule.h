// A run's schedule as text: `trireme plan RUN --show`.
#pragma once
#include <string>

#include "plan/run_spec.h"

namespace trireme::apps {

// `form`: "grid", or "csv" as PyTorch reads it. Of a layout without a plan of segments too, whose ranks may be 0:
// unknown.
std::string shown_schedule(const plan::RunSpec& run, int ranks, const std::string& form);

}  // namespace trireme::apps
