// costs.json of a run (run_files.h), which is written for other readers: the report only checks it.
#pragma once
#include <filesystem>

#include "plan/plan.h"

namespace trireme::plan {

// ConfigError with the file and the key, as the readers of run_files.h.
Costs read_costs(const std::filesystem::path& run_folder);

}  // namespace trireme::plan
