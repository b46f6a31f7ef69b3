// What a stage's rank holds of a setting, for who walks its slots: the row of the grid (memory.h), or the actions that it is
// lowered to.
#pragma once
#include <vector>

#include "sim/estimate/memory.h"
#include "sim/estimate/memory_pieces.h"

namespace trireme::sim {

struct StageHoldings {
  std::vector<PieceMemory> chunks;  // nothing of an empty one
  StateBytes states;
  double stream = 0;  // a gradient between stages that stays (Kernels::last_gradients_stay)
};
std::vector<StageHoldings> stage_holdings(const Setting& setting, const plan::Schedule& schedule,
                                          const model::Kernels& kernels);

// What a rank needs that has given out this much at its highest: with fragmentation and what lies outside.
double needed_bytes(const Setting& setting, const model::Kernels& kernels, double allocated_bytes);

}  // namespace trireme::sim
