// Executes a schedule at the level of its slots: a stage runs its row in order; a slot starts when the slot before it
// has ended and what it needs has arrived from the stage that makes it. Buffers between stages are unlimited. A joined
// pair is one unit: it waits for both inputs and both outputs leave at its end. Exact, deterministic, O(units); nothing
// is averaged over stages. With a workspace that has been used before for a grid of this size, no memory is allocated.
#pragma once
#include <vector>

#include "plan/timeline.h"
#include "sim/grid/compiled_grid.h"

namespace trireme::sim {

enum class SendMode {
  free,  // every message on its own: it arrives send_s after its slot has ended
  lane,  // a stage has one lane for each direction: messages of a direction leave one after another, in the row's order
  blocking,  // the stage stands still while it sends (a pair's two messages go at once)
};

// A cell is stage * num_chunks + chunk. Tables marked (mb) hold an entry for each cell, or for each
// [cell][micro-batch]. A table that no slot of the grid uses may be empty. Seconds and bytes are not negative
// (std::logic_error).
struct GridCosts {
  std::vector<double> forward_s;          // (mb)
  std::vector<double> backward_s;         // (mb) input and weight gradients
  std::vector<double> input_gradient_s;   // (mb)
  std::vector<double> weight_gradient_s;  // (mb)
  // Of joined slots: [cell of the forward][chunk of the backward], or the same by the forward's micro-batch; empty: the
  // sum of the two. `pair_input_s` is a forward with an input gradient.
  std::vector<double> pair_s, pair_input_s;

  std::vector<double> forward_send_s;   // (mb) a cell's output to the next piece's stage; empty: 0. Not used where the
  std::vector<double> backward_send_s;  // (mb) next piece is on the same stage. Backward: to the previous piece's.
  SendMode sends = SendMode::free;
  std::vector<double> stage_start_s;  // by stage: when its row may begin; empty: 0

  // Memory, by cell; with `activation_bytes` empty none is tracked. A forward holds activation_bytes from its start to
  // the end of its backward (or weight gradient). From the end of an input gradient to that of the weight gradient
  // `weight_held_bytes` are held instead (empty: all of activation_bytes). Transient: beside it while a slot runs.
  std::vector<double> activation_bytes;
  std::vector<double> weight_held_bytes;
  std::vector<double> forward_transient_bytes;   // empty: 0
  std::vector<double> backward_transient_bytes;  // empty: 0; of a backward or an input gradient
};

struct GridResult {
  double makespan_s = 0;             // from 0 to the end of the last slot
  std::vector<double> busy_s;        // by stage: in its slots
  std::vector<double> finish_s;      // by stage: end of its last slot (and its blocking sends)
  std::vector<double> cell_start_s;  // by cell: start of its first forward (0 of an empty chunk)
  std::vector<double>
      cell_done_s;                 // by cell: when its gradients are complete (0 of an empty chunk and of forward-only)
  std::vector<double> peak_bytes;  // by stage; empty where no memory is tracked
  std::vector<int> peak_slot;      // by stage: the slot of the row during which the peak is first reached
  std::vector<plan::Span> spans;  // by slot (CompiledGrid::row_begin[stage] + slot), joined ones alike; where asked for

  // Of the time of all stages up to makespan_s, the part that is in no slot.
  double bubble_fraction() const;
  double idle_s(int stage) const { return makespan_s - busy_s[stage]; }
};

struct GridWorkspace {
  GridResult result;
  std::vector<double> arrival_s;  // by message
  std::vector<double> free_s;     // by stage
  std::vector<double> lane_s;     // by stage and direction
  std::vector<plan::Span> unit_spans;
  std::vector<double> held_bytes;  // by stage
};

// The result lives in the workspace, until its next use. With `spans`, GridResult::spans are filled in (no-ops: empty
// spans).
const GridResult& simulate_grid(const CompiledGrid& grid, const GridCosts& costs, GridWorkspace& workspace,
                                bool spans = false);
GridResult simulate_grid(const CompiledGrid& grid, const GridCosts& costs, bool spans = false);

// Micro-batches of each chunk that a stage holds just before the slot runs, and with the forward that the slot runs (of
// a pair both). With GridResult::peak_slot: what the peak consists of.
std::vector<int> in_flight_by_chunk(const plan::Schedule& schedule, int stage, int slot);

}  // namespace trireme::sim
