// Bytes of a stage's constants, buffers and workspaces, as `nn`, `parallel` and `train` hold them.
#pragma once
#include <vector>

#include "model/operators.h"
#include "plan/memory_curve.h"
#include "plan/plan.h"

namespace trireme::sim {

// Parameters that one rank of the stage holds: elements.
struct StageParameters {
  double dense = 0;
  double expert = 0;
  double total() const { return dense + expert; }
};
StageParameters stage_parameters(const plan::RunSpec& run, const plan::Mesh& mesh, const plan::StagePlan& stage);
// Without those that train.freeze names: what has optimizer state and is updated.
StageParameters trained_parameters(const plan::RunSpec& run, const plan::Mesh& mesh, const plan::StagePlan& stage);

// Values (dtype), gradients and both moments (max(float32, dtype)); masters where dtype is smaller than that. Frozen
// parameters have gradients, which are summed and not used, but no moments or masters. A forward-only plan holds values
// alone.
std::vector<plan::MemoryPart> constant_parts(const plan::RunSpec& run, const plan::Mesh& mesh,
                                             const plan::StagePlan& stage);

// What the first data rank of the stage copies to host memory for a checkpoint: the value (dtype), both moments and,
// where dtype is narrower than they are, the master of all that it owns, and its layers' selection biases. A tied table's
// copy on the last stage belongs to the first.
double checkpoint_copy_bytes(const plan::RunSpec& run, const plan::Mesh& mesh, const plan::StagePlan& stage);

// Whether nn runs its fused kernels (nn/fused.h): on a CPU, in float32 and float64.
bool runs_fused(const plan::RunSpec& run);

// The shape of a segment on one rank for one micro-batch, with the rows that balanced routing gives: every rank receives
// as many as it sends. `threads` of the rank, at least 1.
model::SegmentShape segment_shape(const plan::RunSpec& run, const plan::Mesh& mesh, int threads, bool training = true);

// A workspace may be negative: it takes off what two buffers that are alive at one time share.
double buffer_bytes(const plan::RunSpec& run, const model::SegmentShape& shape, const plan::Buffer& buffer);
double workspace_bytes(const plan::RunSpec& run, const model::SegmentShape& shape, const plan::StagePlan& stage,
                       const plan::Action& action);

}  // namespace trireme::sim
