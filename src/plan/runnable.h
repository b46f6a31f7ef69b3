// Which layouts the runtime runs: planning answers for more.
#pragma once
#include "plan/run_spec.h"

namespace trireme::plan {

// ConfigError naming the first key of run.layout that `trireme train` can't run.
void refuse_unrunnable(const RunSpec& run);
// Likewise the first that has no plan of segments: schedules that train can't run yet have one.
void refuse_unplannable(const RunSpec& run);
bool has_plan_of_segments(const LayoutSpec& layout);

}  // namespace trireme::plan
