// How long an all-to-all takes on a fabric. Fluid: a phase lasts as long as its busiest resource - a member's own time,
// its port on the node, its network card, its group's uplink, each way - and one latency, or one for every in_flight
// messages where the pattern bounds them. A member's phase starts when those that it is after have ended there and its
// senders have started theirs. Phases side by side share: the whole is never shorter than any resource's work in all
// phases.
#pragma once
#include <string>
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/row_counts.h"
#include "sim/network/fabric.h"

namespace trireme::sim {

struct PhaseTime {
  std::string name;
  double begin_s = 0, end_s = 0;  // of the last member
};

struct PatternTime {
  double seconds = 0;
  std::vector<PhaseTime> phases;
  std::string busiest;  // "network card", "node port", "messages", "uplink" or "latency": most work over all phases
};

// Any counts, any shape; linear in the pattern's parcels.
PatternTime pattern_time(const plan::Pattern& pattern, const plan::NodeShape& shape, const Fabric& fabric,
                         const plan::RowCounts& counts, double row_bytes);

// Counts that are the same for all members, by generator's name: where the shape is even, one node's (or group's)
// members stand for all, so a thousand members take no longer than eight.
PatternTime balanced_time(const std::string& pattern, const plan::NodeShape& shape, const Fabric& fabric,
                          const plan::UniformRouting& counts, double row_bytes, int in_flight = 8);

}  // namespace trireme::sim
