// The description of a segment: for (model, layer, a rank's share, precision, execution, kernels) the operators with
// their shapes and passes, the tensors made and kept, the weights, and the collectives at or inside it. It is written
// once, as code that walks a layer's segments in order (walk.h) and tells a sink of each thing; a sink is a template
// parameter, so that each reader below is compiled to what it reads and nothing else: no heap, no string and no virtual
// call an operator. Add an operator there, and nowhere else.
//
// Layers from num_layers on are those of MTP blocks: mixer and feed-forward only, what is around them is the
// mtp_* functions'.
#pragma once
#include "model/description/operator.h"
#include "model/description/share.h"
#include "model/description/tape.h"
#include "model/description/weight.h"
#include "model/execution.h"
#include "model/kernels.h"
#include "model/model_spec.h"
#include "model/precision.h"
#include "model/recompute.h"

namespace trireme::model {

// What is described. Holds references.
struct Subject {
  const ModelSpec& model;
  const Share& share;
  const Precision& precision;
  const Execution& execution;
  const Kernels& kernels;
  RecomputeSet recompute = {};  // read by tapes: operators are there once, `recomputes` says which run again
};

// Operators of all passes are added to `out`.
void layer_operators(const Subject& subject, int layer, OperatorList& out);
void embedding_operators(const Subject& subject, OperatorList& out);
void head_operators(const Subject& subject, OperatorList& out);
void mtp_operators(const Subject& subject, OperatorList& out);

// Follows Megatron-LM's modules on Transformer Engine (LayerNormLinear, Linear, GroupedLinear, fused attention, fused
// permutation) with the choices of the kernels, which also describe plainer stacks: with flash_attention off and
// dropout on, a dense layer is that of Korthikanti et al. 2022 (arXiv 2205.05198), section 4: sbh (34 + 5 a s / h)
// bytes.
Tape layer_tape(const Subject& subject, int layer);
Tape head_tape(const Subject& subject);  // norm of the last hidden state, logits and loss
Tape mtp_tape(const Subject& subject);   // embedding and hidden state, their norms and the projection of both
// Of the embedding, which is no run of operators: token ids stay; the table's gradient is a whole matrix of its own,
// added to the accumulated one afterwards.
TapeMemory embedding_memory(const Subject& subject);

WeightList layer_weights(const Subject& subject, int layer);
WeightList embedding_weights(const Subject& subject);  // with learned positions
WeightList head_weights(const Subject& subject, bool own_matrix);  // with the final norm
WeightList head_stream_weights(const Subject& subject);  // what mixes several residual streams before the head
WeightList mtp_weights(const Subject& subject);  // what an MTP block has beside its layer

// Bytes of the residual stream of these tokens: what stages send to one another, and the seam of segments.
inline double stream_bytes(const Subject& subject, double tokens) {
  return tokens * subject.model.hidden * subject.precision.activation_bytes;
}
// Rows of the vocabulary's matrices on a rank, padding included.
double vocabulary_rows(const ModelSpec& model, const Kernels& kernels, int tp);
// Bytes of an element of a matmul's saved input: of its own, or of its quantised copy.
double kept_input_bytes(const Precision& precision);

// Whether recomputation runs a part's forward again.
bool recomputes(RecomputeSet set, Part part, bool moe_layer);

}  // namespace trireme::model
