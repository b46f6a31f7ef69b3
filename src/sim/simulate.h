// Executes a plan in simulated time: every lane in order, each action when its lane is free and its waits are done.
// Either one rank of each stage is simulated and stands for all, which are then alike, or every rank, each with its own
// lengths: its share of the expert load, and the noise of its machine.
//
// A send and its receive run together: from the later start of both, for the longer of their two prices, and end together.
// So does a collective, over all members that are simulated.
//
// On a host of `cores` cores, all that runs at a time shares them: n computing ranks of t threads, and
// `communication_core_share` cores for each rank whose message is on its way, are n + share * messages / t busy ranks;
// `slow_down` says how much slower each computes (linear between its points, beyond the last in proportion; without a
// table max(1, busy * t / cores)). The share of a message that is processor time slows down alike.
//
// Noise: the length of each compute action is multiplied by a factor drawn from platform::NoiseTable by a counter-based
// function of (seed, rank, action). A partner that waits for the slowest of several noisy ranks waits longer than for the
// mean of them: a step of many exchanges costs more than its prices.
//
// Deterministic. Cost: linear in actions and waits where nothing is shared, else O(actions x lanes that are active at a
// time).
#pragma once
#include <cstdint>
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
  double overlap = 1;                         // devices of their own: how fast one computes while its messages are on their way
  const platform::BusyTable* busy = nullptr;  // not owned; of `threads` threads
  bool compute_waits = false;                 // a rehearsal: compute only takes time, no core, and nothing slows it down
  bool memory = true;                         // also the memory curves
  bool every_rank = false;                    // else one rank a stage
  const platform::NoiseTable* noise = nullptr;  // not owned; null: none
  double noise_stretch = 1;                     // of its factors' distances from 1
  std::uint64_t seed = 0;                     // of the noise
  // Of each rank (every_rank) or stage, for each of its actions: its length over the price; empty: 1 everywhere.
  std::vector<std::vector<double>> scale;
};

struct SimResult {
  double step_s = 0;
  bool every_rank = false;
  std::vector<std::vector<plan::Span>> spans;   // by stage, or by rank; aligned with its actions
  std::vector<plan::MemoryCurve> memory;        // likewise; empty unless asked for
};

// std::logic_error naming the first action that can't go on, where stages wait for one another: plan::problems finds such
// plans first.
SimResult simulate(const plan::Plan& plan, const plan::Costs& costs, const SimulateOptions& options = {});

// One timeline for every rank of the mesh.
std::vector<plan::RankTimeline> timelines(const plan::Plan& plan, const SimResult& result);

}  // namespace trireme::sim
