// What the lowering passes hand on: one stage's actions in order, with the schedule slot that each belongs to. Ids are
// unique but not yet places in the list; `finish` numbers them and derives the waits that follow from buffers.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace trireme::plan {

struct DraftAction {
  Action action;
  int slot = -1;  // index in the schedule's row; -1: before the first slot; the number of slots: after the last
};

struct Draft {
  int stage = 0;
  int num_stages = 1;
  int num_slots = 0;
  std::vector<Slot> row;  // at the grain of a segment: the slots, without no-ops
  bool forward_only = false;
  std::vector<Chunk> chunks;
  std::vector<int> previous_stage;  // by chunk: that of the piece before it (its own: no message); -1: none
  std::vector<int> next_stage;
  std::vector<Buffer> buffers;
  std::vector<Bucket> buckets;
  std::vector<DraftAction> actions;
  int next_id = 0;

  int add_buffer(Buffer buffer);              // its index
  DraftAction make(Action action, int slot);  // with a fresh id
};

// The stage and chunk that hold the pieces before and after each of a stage's chunks; {-1, -1}: there is none.
struct Neighbours {
  std::vector<std::pair<int, int>> previous, next;  // by chunk: (stage, chunk)
};
Neighbours neighbours_of(const Schedule& schedule, int stage);

// Segments of a chunk in forward order, with their layers. `dispatch` is not among them: it only communicates.
struct Place {
  Segment segment = Segment::none;
  int layer = -1;
};
std::vector<Place> places(const model::ModelSpec& model, const Chunk& chunk);

// Elements that one rank of a stage holds, by the segment whose backward makes their gradient. Of the whole model, listed
// once for all stages.
struct PartElements {
  double dense = 0, expert = 0;
};
using ElementsByPart = std::map<std::pair<int, Segment>, PartElements>;  // (layer, segment)
ElementsByPart elements_by_part(const model::ModelSpec& model, const Mesh& mesh);

// Pass 1: a stage's row of the grid to compute actions over segments, with their buffers. `chunks`: of the stage, by
// chunk. A split backward's input half makes the gradient of the segment's input, and leaves what the weight half
// needs; a segment without weights has no weight half. Joined slots stand one after the other (Draft::row says which
// are).
Draft expand_segments(const model::ModelSpec& model, const ElementsByPart& elements, const Schedule& schedule,
                      const std::vector<Chunk>& chunks, int stage);
// Pass 2: all-to-alls around the experts where they are spread over ep > 1 ranks.
Draft add_expert_transfers(Draft draft, int ep);
// Pass 3: boundaries and gradients between stages. A receive is posted while the slot before its own runs, or the pair.
Draft add_pipeline_transfers(Draft draft);
// Pass 4: gradient buckets, filled in the order in which the last backwards (or weight gradients) complete them, each
// reduced as soon as it is full.
Draft add_gradient_reduction(Draft draft, const model::ModelSpec& model, const ElementsByPart& elements, const Mesh& mesh,
                             double bucket_bytes, int bytes_per_element);
// Pass 5: the token count before the first use of it, and norm, metrics and optimizer after all reductions.
Draft add_step_ends(Draft draft, const model::ModelSpec& model, const Mesh& mesh);
// Numbers the actions, and adds the waits for buffers that another lane fills.
StagePlan finish(Draft draft);

}  // namespace trireme::plan
