// When a pattern's messages are there, by two ways with equal results.
#pragma once
#include <vector>

#include "plan/all_to_all/pattern.h"
#include "sim/network/pattern_flows.h"

namespace trireme::sim {

struct PhaseSpan {
  double begin_s = 0;  // of the last member
  double end_s = 0;    // of the last message
};

// Follows every message in the order of time. A member starts a phase when those that it is after have arrived there
// (of several, those that others wait for first), posts its steps one after another, in a bounded phase each when the
// oldest has ended, and a message is under way, after its latency, when both ends have posted it. O(n log n) in the
// messages.
std::vector<PhaseSpan> times_by_events(const plan::Pattern& pattern, const PatternFlows& flows, double row_bytes);

// Of a pattern of one phase without a bound, where nothing waits for a message: each link by itself, linear in the
// messages.
PhaseSpan time_of_one_phase(const PatternFlows& flows, double row_bytes);

}  // namespace trireme::sim
