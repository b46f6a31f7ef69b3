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
  lane,  // a stage has one lane for each direction: messages of a direction leave one after another, in the row's order
  blocking,  // the stage stands still while it sends (a pair's two messages go at once)
};

// A cell is stage * num_chunks + chunk. Tables marked (mb) hold an entry for each cell, or for each
// [cell][micro-batch]. A table that no slot of the grid uses may be empty. Seconds are not negative
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
  SendMode sends = SendMode::lane;
};

struct GridResult {
  double makespan_s = 0;             // from 0 to the end of the last slot
  std::vector<double> busy_s;        // by stage: in its slots
  std::vector<double> finish_s;      // by stage: end of its last slot (and its blocking sends)
  std::vector<plan::Span> spans;     // by slot (CompiledGrid::row_begin[stage] + slot), joined ones alike; where asked for

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
};

// The result lives in the workspace, until its next use. With `spans`, GridResult::spans are filled in (no-ops: empty
// spans).
const GridResult& simulate_grid(const CompiledGrid& grid, const GridCosts& costs, GridWorkspace& workspace,
                                bool spans = false);
GridResult simulate_grid(const CompiledGrid& grid, const GridCosts& costs, bool spans = false);

}  // namespace trireme::sim
