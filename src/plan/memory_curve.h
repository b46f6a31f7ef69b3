// What a stage's rank holds over a step, from the price of its buffers and when its actions ran: the simulator's curve,
// and by the measured spans the run's.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "plan/timeline.h"

namespace trireme::plan {

struct MemoryPoint {
  double time_s = 0;
  double bytes = 0;  // from this time on
  bool operator==(const MemoryPoint&) const = default;
};
TRIREME_JSON(MemoryPoint)

struct MemoryPart {
  std::string what;  // "saved", "boundary", "gradient", "batch", "weight work", "workspace", "parameters and optimizer"
  double bytes = 0;
  bool operator==(const MemoryPart&) const = default;
};
TRIREME_JSON(MemoryPart)

struct MemoryCurve {
  std::vector<MemoryPoint> points;   // ascending in time
  double peak_bytes = 0;
  double peak_time_s = 0;
  int peak_action = -1;              // the action whose start made the peak; -1: nothing ran
  std::vector<MemoryPart> at_peak;   // sums to peak_bytes
  bool operator==(const MemoryCurve&) const = default;
};
TRIREME_JSON(MemoryCurve)

// At its start an action takes its workspace and the buffers that it allocates; at its end it gives back the workspace
// and the buffers that it frees. What a forward frees, its own saved buffer keeps (SegmentMemory::saved holds the inputs
// that the backward needs): while it runs, its input is counted once. Ends come before starts at equal times.
MemoryCurve memory_curve(const StagePlan& stage, const StageCosts& costs, const std::vector<Span>& spans);

}  // namespace trireme::plan
