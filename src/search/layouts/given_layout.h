// A run as a question that leaves nothing open: its layout is estimated as a search estimates, whether `trireme train`
// executes it or not.
#pragma once
#include "plan/run_spec.h"
#include "search/layouts/question.h"

namespace trireme::search {

// `base` has the model, precision, load and execution, and the target. ConfigError for a pattern without a price, or a
// layout that does not make up the number of devices.
Question given_layout(const plan::RunSpec& run, int num_devices, Question base);

}  // namespace trireme::search
