// Schedules from files: the grid as text (schedule.h), or PyTorch's CSV of pipeline actions.
#pragma once
#include <filesystem>
#include <string>

#include "plan/pipeline/schedule.h"

namespace trireme::plan {

// A name that ends in .csv is PyTorch's, every other the grid. ConfigError with the file, the line and what is wrong
// there, where no pipeline could execute it.
Schedule load_schedule(const std::filesystem::path& path);

// What torch.distributed.pipelining writes and reads as "compute_only": a line for each stage (its ranks), in it an
// action for each time step: 0F0, 3I1, 3W1, 2B5 are piece of the model (PyTorch's stage), kind, micro-batch;
// (0F4;7B2)OVERLAP_F_B are two that run as one; an empty cell is nothing. A stage's chunks are its pieces in the
// model's order. ConfigError with line and cell. to_csv() without no-ops and the padding of empty cells.
ScheduleText parse_schedule_csv(const std::string& text, const std::string& name);
std::string to_csv(const Schedule& schedule);

}  // namespace trireme::plan
