// Which layouts the runtime runs: planning answers for more.
#pragma once
#include "plan/run_spec.h"

namespace trireme::plan {

// ConfigError naming the first key of run.layout that `trireme train` can't run.
void refuse_unrunnable(const RunSpec& run);

}  // namespace trireme::plan
