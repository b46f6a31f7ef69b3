// What of a run is right and hardly meant: said at the start, and the run goes on.
#pragma once
#include <string>
#include <vector>

#include "plan/run_spec.h"

namespace trireme::plan {

// One sentence each, with the key first: a warm-up or a decay that is longer than the run (a short trial of a long run's file
// has that), and a dtype that the device is slow in.
std::vector<std::string> warnings(const RunSpec& run);

}  // namespace trireme::plan
