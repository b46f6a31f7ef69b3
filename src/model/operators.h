// What a segment of a run computes and keeps: the description (description/) read for one segment on one rank, with
// nn's kernels. `sim` prices the operators; `nn` performs them, and a test holds the bytes against what its allocator
// shows.
#pragma once
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/units.h"
#include "model/description/operator.h"
#include "model/model_spec.h"
#include "model/segment.h"

namespace trireme::model {

// Tokens whose logits exist at one time: nn's, and `loss_chunk_tokens` of the kernels that describe it.
inline constexpr std::int64_t head_chunk_tokens = 512;

// The sizes that a segment meets on one rank for one micro-batch, and which of nn's kernels run it.
struct SegmentShape {
  std::int64_t sequences = 1;        // micro-batch size
  std::int64_t sequence_length = 1;
  std::int64_t rows_sent = 0;        // tokens x top_k (routed rows of this rank's tokens)
  std::int64_t rows_received = 0;    // rows that its experts process; with ep = 1 those sent
  int local_experts = 0;             // num_experts / ep
  int ep = 1;
  DType dtype = DType::float32;
  int threads = 1;       // each has scratch of its own
  bool training = true;  // the head makes its gradient in the forward; an evaluation's only its loss
  bool fused = true;  // fused kernels (`trireme`: CPUs, float32 and float64); else plain operators (`trireme_device`)
  std::int64_t tokens() const { return sequences * sequence_length; }
};

enum class Pass { forward, backward };

// Compute only, messages are priced by their actions. Of the backward both halves: from the last operator to the first,
// of each the gradient of its input and then of its weight. A head whose loss is in chunks does all of it in the
// forward; its backward only hands the stored gradient on.
std::vector<Operator> operators(const ModelSpec& spec, Segment segment, int layer, Pass pass,
                                const SegmentShape& shape);
// Those of one half of the backward, or of the forward: what a schedule runs that splits them.
std::vector<Operator> operators(const ModelSpec& spec, Segment segment, int layer, OperatorPass pass,
                                const SegmentShape& shape);

// Memory of one segment for one micro-batch. The residual stream that passes through `experts` counts in its boundary
// and input gradient, as whoever holds those holds it. An output that the own backward needs counts in `boundary` and
// in `saved`. The workspaces of fused kernels are exact; those of plain operators are an autograd engine's
// (description/tape.h).
struct SegmentMemory {
  Bytes boundary;            // the outputs that go to the next segment or to a message
  Bytes to_shared;           // the output beside it that goes to `shared`
  Bytes saved;               // kept from the forward for the backward, its own inputs included where they are needed
  Bytes forward_workspace;   // highest transient above inputs, outputs and saved while the forward runs
  Bytes backward_workspace;  // the same in the backward, above the output and input gradients
  Bytes input_gradient;      // gradient with respect to the inputs, that the backward hands on
  // Of a backward in two halves: what the first leaves for the second, what each holds for a moment. The first takes over
  // what was saved and the output's gradient, so its workspace, beside all that is there before and after, is negative.
  // Plain operators do both halves in the first.
  Bytes weight_work, input_workspace, weight_workspace;
};
SegmentMemory segment_memory(const ModelSpec& spec, Segment segment, int layer, const SegmentShape& shape);

}  // namespace trireme::model
