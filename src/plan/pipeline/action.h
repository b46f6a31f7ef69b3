// What a rank does in a step, as values. A stage's list is in total order; each lane executes its own part of it in
// that order, and an action starts when everything that it waits for is complete. Nothing else decides when a message
// is sent.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "model/operators.h"
#include "model/segment.h"
#include "plan/group_kind.h"

namespace trireme::plan {

using model::Pass;
using model::Segment;

// Lanes of a rank. Each is one thread (CPU) or one stream (accelerators). A pipeline direction has a lane for sending
// and one for receiving: a receive may be posted early, and must not stand before a send that the next stage waits for.
// Messages between stages are rendezvous; where a lane has one peer no order of a valid schedule can deadlock, since a
// receive waits only for its own stage's compute, and compute waits for receives but never for sends. A stage with more
// than two peers in a pass, which only a schedule from a file can have, shares the turned lanes among them:
// plan::problems executes the order and names what would wait for itself.
enum class Lane {
  compute,
  forward_send,      // activations to the next stage
  forward_receive,   // activations from the previous stage
  backward_send,     // gradients to the previous stage
  backward_receive,  // gradients from the next stage
  ep,                // dispatch and combine
  dp,                // gradient reductions, token counts, metrics
  copy,              // host copies
  // On a V's way back the piece before comes from the other neighbour: with a lane of its own no message waits behind
  // one that its own sender needs first.
  turned_forward_receive,
  turned_backward_receive,
  copy_in,  // of plans at the grain of a chunk: from host memory; `copy` then is the way out
  // Of plans at the grain of a segment, whose receives are posted late, the same for what is sent.
  turned_forward_send,
  turned_backward_send,
};
TRIREME_JSON(Lane)
const char* name_of(Lane lane);
inline constexpr int num_lanes = 13;

enum class ActionKind {
  load_batch,      // compute: a micro-batch's tokens; all of a step at its start, since the count needs them
  count_tokens,    // dp: number of valid targets in the global batch, before anything is seeded
  forward,         // compute: a segment's forward
  backward,        // compute: a segment's backward, input and weight gradients
  input_gradient,  // compute: the input half of a backward
  weight_gradient, // compute: the weight half
  all_to_all,      // ep: dispatch or combine; in a backward pass the transpose
  send,            // boundary to the next stage (forward) or its gradient to the previous one (backward)
  receive,
  reduce,          // dp: a gradient bucket
  reduce_embedding,// dp: gradients of tied embeddings over the embedding group
  gradient_norm,   // compute: sum of squares of the gradients that this rank owns
  reduce_metrics,  // dp: loss, norm and flags over the world
  reduce_counts,   // dp: router counts over the data ranks
  optimizer,       // compute
  // Of plans at the grain of a chunk alone (plan/lowering/chunk_passes.h).
  pair,            // compute: a forward and a backward that are executed as one
  gather,          // dp: sharded parameters, for the step's first forwards
  swap_out,        // copy: a micro-batch's activations, or optimizer state, to host memory
  swap_in,         // copy_in: and back
};
TRIREME_JSON(ActionKind)
const char* name_of(ActionKind kind);
constexpr bool adds_gradients(ActionKind kind) {  // to those of weights
  return kind == ActionKind::backward || kind == ActionKind::weight_gradient || kind == ActionKind::pair;
}

// What a buffer holds, for one micro-batch at one place in the stage.
enum class BufferKind {
  boundary,  // outputs of a segment's forward (or of a dispatch or combine message), until the next has read them
  saved,     // what a segment's backward needs: from its forward to its backward
  gradient,  // gradients with respect to a segment's inputs, until the previous segment's backward has read them
  batch,     // tokens, targets, ... of a micro-batch
  weight_work, // what a weight gradient needs: from its input gradient on
  host,      // saved, but in host memory: from its way out to its way in
};
TRIREME_JSON(BufferKind)

struct Buffer {
  BufferKind kind = BufferKind::boundary;
  Segment segment = Segment::none;  // of `gradient`: the segment whose input it is the gradient of;
                                    // Segment::none: what came from the previous stage (boundary) or the next (gradient)
  bool message = false;             // of dispatch and combine: the received rows (else the computed ones); of a chunk:
                                    // what another stage sends
  bool to_shared = false;           // what goes to the shared expert, past the messages: of attention's outputs its input,
                                    // of the gradients that combine's backward makes its output's
  int mb = -1;
  int chunk = -1;
  int layer = -1;
  bool operator==(const Buffer&) const = default;
};
TRIREME_JSON(Buffer)

struct Action {
  int id = 0;  // its place in the stage's list
  ActionKind kind = ActionKind::forward;
  Pass pass = Pass::forward;
  Segment segment = Segment::none;
  int mb = -1;
  int chunk = -1;
  int backward_mb = -1;          // of a pair: its backward's; mb and chunk are its forward's
  int backward_chunk = -1;
  int layer = -1;
  Lane lane = Lane::compute;
  GroupKind group;               // of collectives, send and receive
  int peer_stage = -1;           // of send and receive
  int bucket = -1;               // of reduce
  std::vector<int> waits;        // ids that must be complete; lane order is implied and not listed
  std::vector<int> reads;        // buffer ids, allocated before
  std::vector<int> allocates;    // buffer ids that this action fills
  std::vector<int> frees;        // buffer ids that nobody needs after it
  bool operator==(const Action&) const = default;
};

// "forward attention mb 3 layer 1": for errors, traces and reports.
std::string describe(const Action& action);

void to_json(nlohmann::json& j, const Action& action);
void from_json(const nlohmann::json& j, Action& action);

}  // namespace trireme::plan
