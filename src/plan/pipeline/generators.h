// Schedules by the name that a config gives.
#pragma once
#include <string>
#include <vector>

#include "plan/pipeline/schedule.h"

namespace trireme::plan {

std::vector<std::string> schedule_names();
// ConfigError (key layout.schedule) for an unknown name.
Schedule make_schedule(const std::string& name, int num_stages, int num_micro_batches);

}  // namespace trireme::plan
