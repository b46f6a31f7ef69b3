// Chrome/Perfetto trace events (JSON; chrome://tracing, ui.perfetto.dev): one process a rank, one thread a lane. Several
// sets of timelines lie side by side as groups of processes.
// Source: "Trace Event Format" (Google), complete events (ph X, microseconds) and metadata events (ph M).
#pragma once
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/timeline.h"

namespace trireme::report {

struct TraceGroup {
  std::string name;  // "predicted"
  std::vector<plan::RankTimeline> ranks;
};

// Process ids: group * 100000 + rank; thread ids: the lane's number + 1, then one for what an idle compute lane
// waits for (report/exposure.h) and one for every name of a phase of the exchanges.
std::string trace_json(const plan::Plan& plan, const std::vector<TraceGroup>& groups);

}  // namespace trireme::report
