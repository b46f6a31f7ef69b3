// Executes an all-to-all pattern on a SimGrid platform: the value itself, phases, order, bounds and all.
#pragma once
#include <vector>

#include <simgrid/s4u.hpp>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/row_counts.h"

namespace trireme::simgrid_bench {

struct Execution {
  double seconds = 0;  // simulated, from the first member's start to the last one's end
  long messages = 0;
};

// To be called by an actor; others than the pattern's must be idle. hosts[i] is member i's. A member is one thread that
// does what comm's run_messages does: it posts a phase's receives and sends in turn when the phases that it is after
// have arrived there (of several, those that others wait for first), `message_s` for a pair and half of it for one
// alone. A message moves when both ends have posted it. Where a phase is bounded, the next pair is posted when the
// oldest has ended. A message without rows is not sent, but still is a step of a bounded phase.
Execution execute(const plan::Pattern& pattern, const std::vector<simgrid::s4u::Host*>& hosts,
                  const plan::RowCounts& counts, double row_bytes, double message_s);

}  // namespace trireme::simgrid_bench
