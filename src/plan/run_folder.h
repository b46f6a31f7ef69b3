// What a run owns in its folder, and what else on a disk is never written over: a run begins in its own folder only,
// and no page or table that a command writes takes the place of what a run, a checkpoint, a model or a data set is made
// of.
#pragma once
#include <filesystem>
#include <string>

#include "plan/run_spec.h"

namespace trireme::plan {

// Whether a run has been in a folder: its run_info.json, its lock, or (of an older program) its plan.
bool is_run_folder(const std::filesystem::path& folder);

// "is run.toml of the run in out": what `path` is, where it belongs to a run (anything that the run goes on from, is
// read back from or checked by, and new files between them), to a checkpoint, a Hugging Face folder of weights or a
// data set. Empty for everything else, such as a run's report.html.
std::string belongs_to(const std::filesystem::path& path);

// Before a run takes its folder. ConfigError (folder) where the folder can't be made, lies in what belongs_to() names,
// or has files that no run has written under the names that this one would write; and, with its path, for an entry that
// is a pipe, a device or a folder where a run keeps a file, or the other way round.
void check_run_folder(const RunSpec& run);

}  // namespace trireme::plan
