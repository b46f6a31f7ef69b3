// How long an all-to-all takes on a fabric: crowd_time where it was measured while all ranks talk. Else every message is followed: a member posts a phase's steps, a receive and a
// send each, one after another in its own time; a message waits for its latency and then has an equal part of every
// link that it crosses (a port each way on the node, a network card, what leaves a group of nodes), each link by
// itself. A member's phase starts when those that it is after have arrived there; in a bounded phase a step is posted
// when the oldest has ended. Against max-min fair sharing the one thing left out is that a flow which another link
// holds up leaves its part to others.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/row_counts.h"
#include "sim/network/fabric.h"
#include "sim/network/pattern_flows.h"

namespace trireme::sim {

struct PhaseTime {
  std::string name;
  double begin_s = 0, end_s = 0;  // of the last member
};

struct PatternTime {
  double seconds = 0;
  std::vector<PhaseTime> phases;
  std::string busiest;  // "network card", "node port", "messages" (a member's own time) or "uplink": the most work;
                        // "latency" where that is less than half of the time
  double inside_s = 0, outside_s = 0;  // of the busiest member's port on its node; of the busiest card or uplink
};

// Any counts, any shape. Linear in the parcels, n log n in the messages; linear where one phase has no bound.
PatternTime pattern_time(const plan::Pattern& pattern, const plan::NodeShape& shape, const Fabric& fabric,
                         const plan::RowCounts& counts, double row_bytes);

// Counts that are the same for all members, by generator's name: where the shape is even, one node's (or group's)
// members stand for all, exactly. The links are those of that node or group. The messages are made once, for any rows.
class BalancedPattern {
 public:
  BalancedPattern(const std::string& pattern, const plan::NodeShape& shape, const Fabric& fabric,
                  const plan::UniformRouting& counts, int in_flight = 8);
  BalancedPattern(const BalancedPattern&) = delete;
  BalancedPattern& operator=(const BalancedPattern&) = delete;
  PatternTime at(double row_bytes) const;

 private:
  plan::NodeShape shape_;
  Fabric fabric_;
  plan::UniformRouting counts_;
  int period_;
  plan::Pattern pattern_;
  std::optional<PatternFlows> flows_;  // where messages are followed
};

// Of one size of rows.
PatternTime balanced_time(const std::string& pattern, const plan::NodeShape& shape, const Fabric& fabric,
                          const plan::UniformRouting& counts, double row_bytes, int in_flight = 8);

}  // namespace trireme::sim
