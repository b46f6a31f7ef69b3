// The shortest that a step can take, without executing its schedule: for discarding candidates by the hundred thousand.
#pragma once
#include "sim/estimate/piece_time.h"

namespace trireme::sim {

struct BoundWorkspace {
  StepShape shape;
  std::vector<LayerTime> kinds;
  std::vector<PieceTime> pieces;
  OperatorList works;
};

// Never above StepModel::evaluate().step_s of the same setting and rates. A stage computes all micro-batches one
// after another; before its first, the pieces before its own have run once; after its last, where weight gradients are
// not put off, their backwards run once more. Where forwards and backwards are joined all exchanges are as if every one
// had a partner. Swapped activations' copies are left out. Uses no heap once the workspace has been used for a setting
// of this size.
double step_lower_bound_s(const Setting& setting, const Rates& rates, BoundWorkspace& workspace);

// The two halves of that, for who prices many layouts of equal layers: every piece of the setting's shape from its
// kinds' and ends' times, and the bound that follows. `pieces`: its memory is reused. `host_bytes`: as of swapped_bytes
// (memory_pieces.h); empty: without the copies.
void price_pieces(const Setting& setting, const Rates& rates, const StepShape& shape,
                  std::span<const LayerTime> kinds, const EndTimes& ends, std::vector<PieceTime>& pieces,
                  std::span<const double> host_bytes);
double step_lower_bound_s(const Setting& setting, const Rates& rates, const StepShape& shape,
                          std::span<const PieceTime> pieces);

}  // namespace trireme::sim
