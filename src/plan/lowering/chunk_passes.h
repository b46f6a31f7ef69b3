// Lowering at the grain of a chunk: a slot of the grid becomes one compute action (a forward, a backward, one half of it,
// or a joined pair), and everything that the layout does beside a slot becomes actions of other lanes. What happens
// inside a slot is in the action's price: tensor, context and expert parallel messages, recomputation, parameters gathered
// layer by layer. One pass a policy, each a pure function; what `train` executes is lowered by segments (draft.h).
//
// A slot begins when the compute action before it, what was beside that one and what it waits for are done; what is
// beside a slot (copies) begins with it, and both have ended before its output leaves and the next slot begins.
//
// Boundaries and gradients between chunks are buffers as elsewhere; their bytes are in the chunk's saved bytes and peaks.
#pragma once
#include "plan/lowering/draft.h"

namespace trireme::plan {

// Pass 1: a stage's row to compute actions with their buffers. `chunks`: of the stage.
Draft expand_chunks(const Schedule& schedule, const std::vector<Chunk>& chunks, int stage);

// Pass 2: boundaries and gradients between stages. A receive is posted from the step's start, in the order of use.
// `beside_compute`: else the next slot waits until a slot's sends have left.
Draft add_chunk_transfers(Draft draft, bool beside_compute);

// Pass 3: activations to host memory beside a forward, and back beside the backward.
Draft add_activation_swaps(Draft draft);

// What follows the pipeline of a stage, and which of it begins inside of it.
struct UpdatePolicy {
  GroupKind data = Axis::dp;                     // ranks that hold the same parameters
  bool sends_beside = true;                      // the stage goes on while it sends; else it waits for its last sends too
  bool reduces = false, reduces_beside = false;  // gradients over these ranks
  bool gathers = false, gathers_beside = false;  // parameters whose optimizer state is sharded
  bool swaps_states = false;                     // optimizer state comes from host memory and goes back, in slices
};
UpdatePolicy update_policy(const LayoutSpec& layout);

// Pass 4: reduction, optimizer and gathering. Where they overlap, a part of a chunk's gathering runs beside its first
// forward, and a part of its reduction beside its last backward; what is left of them runs at the end. (A step's
// gathering is for the forwards of the next one, which begins as this one did.)
Draft add_updates(Draft draft, const UpdatePolicy& policy);

}  // namespace trireme::plan
