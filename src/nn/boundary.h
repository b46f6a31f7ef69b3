// What passes between segments. A field is undefined where it does not apply.
// Legend: T tokens of the micro-batch, D hidden, R routed rows, K top-k, E experts.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model_spec.h"
#include "model/segment.h"

namespace trireme::nn {

// The router's decision for one layer and micro-batch: never recomputed, so that a recomputed segment chooses the same
// experts.
struct Routing {
  at::Tensor experts_TK;  // int64: the chosen experts of each token, best first
  at::Tensor order_R;     // int64: slot (t * K + k) of each permuted row; rows are sorted by (expert, t, k)
  at::Tensor inverse_R;   // int64: row of each slot
  std::vector<std::int64_t> counts_E;  // rows for each expert; sums to T * K
};

struct Boundary {
  at::Tensor x_TD;       // hidden states: the residual stream
  at::Tensor normed_TD;  // input of `shared` (only where there is one)
  at::Tensor rows_RD;    // permuted rows; after dispatch the received ones, after experts the results
  at::Tensor scores_R;   // score of each row, weights the expert's output inside `experts`
  at::Tensor shared_TD;  // output of `shared`
  // Scalars, sums over the micro-batch, each seeded in its own segment's backward. See Losses.
  at::Tensor aux_loss;
  at::Tensor z_loss;
  at::Tensor loss;                               // head: sum over tokens of weight * cross-entropy
  std::shared_ptr<const Routing> routing;        // of the tokens' own rank
  std::vector<std::int64_t> received_counts_PE;  // after dispatch: rows from each source rank for each local expert,
                                                 // source-major; the rows lie in that order
};

enum class Field { x, normed, rows, scores, shared, aux_loss, z_loss, loss };
// Those that are no scalars.
inline constexpr std::array tensor_fields = {Field::x, Field::normed, Field::rows, Field::scores, Field::shared};
at::Tensor& field(Boundary& boundary, Field f);
const at::Tensor& field(const Boundary& boundary, Field f);

// Two that have no tensor in common, together.
Boundary joined(Boundary a, const Boundary& b);

// The differentiable fields that a segment reads, and those that it writes. What it does not read passes through.
std::vector<Field> fields_read(const model::ModelSpec& spec, model::Segment segment, int layer);
std::vector<Field> fields_written(const model::ModelSpec& spec, model::Segment segment, int layer);

// Gradients of the objective with respect to the losses of an attention segment's own: without these, nothing flows
// back from them. That of the head's loss is given to its forward.
struct LossSeeds {
  double aux_loss = 0;
  double z_loss = 0;
};

// The gradient to hand on behind a segment's backward: of the fields that it reads its own (`of_inputs`), of the fields
// that it only writes none, and what came in for those that passed through.
Boundary passed_back(const model::ModelSpec& spec, model::Segment segment, int layer, Boundary incoming,
                     const Boundary& of_inputs);

// One micro-batch of sequences, S tokens each, B sequences; T = B * S, row-major by sequence.
struct Batch {
  at::Tensor tokens_BS;     // int64
  at::Tensor targets_BS;    // int64
  at::Tensor weights_BS;    // float32: 0 for padding and for tokens without a target
  at::Tensor positions_BS;  // int64, restart at each document
  at::Tensor documents_BS;  // int64, non-decreasing in a sequence; -1: padding (routed, but outside auxiliary losses)
};

}  // namespace trireme::nn
