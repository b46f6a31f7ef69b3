// Executes a plan in simulated time: every lane of every stage in order, each action when its lane is free and its waits
// are done. All data ranks of a stage are alike, so one of each stage is simulated, and stands for all where they share
// cores.
//
// A send and its receive run together: from the later start of both, for the longer of their two prices, and end together.
// So does a collective over several stages; one inside a stage starts with its own action, since its members are alike.
//
// On a host of `cores` cores, all that runs at a time shares them: n computing ranks of t threads, and
// `communication_core_share` cores for each rank whose message is on its way, are n + share * messages / t busy ranks;
// `slow_down` says how much slower each computes (linear between its points, beyond the last in proportion; without a
// table max(1, busy * t / cores)). The share of a message that is processor time slows down alike.
//
// Deterministic. Cost: O(actions x lanes that are active at a time).
#pragma once
#include <vector>

#include "plan/memory_curve.h"
#include "plan/plan.h"
#include "plan/timeline.h"
#include "platform/platform_spec.h"

namespace trireme::sim {

struct SimulateOptions {
  int cores = 0;                              // of a host; 0: every rank has a device of its own, nothing is shared
  int threads = 1;                            // of a computing rank
  int ranks_per_host = 0;                     // 0: all
  double communication_core_share = 0;
  const platform::BusyTable* busy = nullptr;  // not owned; of `threads` threads
  bool memory = true;                         // also the memory curves
};

struct SimResult {
  double step_s = 0;
  std::vector<std::vector<plan::Span>> spans;   // by stage, aligned with its actions
  std::vector<plan::MemoryCurve> memory;        // by stage; empty unless asked for
};

// std::logic_error naming the first action that can't go on, where stages wait for one another: plan::problems finds such
// plans first.
SimResult simulate(const plan::Plan& plan, const plan::Costs& costs, const SimulateOptions& options = {});

// One timeline for every rank of the mesh.
std::vector<plan::RankTimeline> timelines(const plan::Plan& plan, const SimResult& result);

// The slow-down of a rank while `busy` ranks of `threads` threads compute on `cores` cores; table may be null.
double slow_down(const platform::BusyTable* table, double busy, int threads, int cores);
// Likewise of the time that a waiting thread takes to run on; 0 without a table.
double hand_over_s(const platform::BusyTable* table, double busy);

}  // namespace trireme::sim
