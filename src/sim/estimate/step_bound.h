// The shortest that a step can take, without executing its schedule: for discarding candidates by the hundred thousand.
#pragma once
#include "sim/estimate/piece_time.h"

namespace trireme::sim {

struct BoundWorkspace {
  StepShape shape;
  std::vector<LayerTime> kinds;
  std::vector<PieceTime> pieces;
  WorkList works;
};

// Never above StepModel::evaluate().step_s of the same setting and machine. A stage computes all micro-batches one
// after another; before its first, the pieces before its own have run once; after its last, where weight gradients are
// not put off, their backwards run once more. Uses no heap once the workspace has been used for a setting of this size.
double step_lower_bound_s(const Setting& setting, const Machine& machine, BoundWorkspace& workspace);

}  // namespace trireme::sim
