#include <algorithm>

#include "base/errors.h"
#include "plan/lowering/draft.h"

namespace trireme::plan {

namespace {

// By micro-batch, the slot after which its batch is not needed any more. A weight gradient needs none.
std::vector<int> last_slots(const std::vector<Slot>& row, int num_micro_batches) {
  std::vector<int> out(static_cast<std::size_t>(num_micro_batches), -1);
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i].kind != SlotKind::weight_gradient) out.at(static_cast<std::size_t>(row[i].mb)) = static_cast<int>(i);
  return out;
}

// The row without its no-ops: slots are numbered by what is left.
std::vector<Slot> work(const std::vector<Slot>& row) {
  std::vector<Slot> out;
  for (const Slot& slot : row)
    if (slot.kind != SlotKind::no_op) out.push_back(slot);
  return out;
}

// A chunk's segments as its backward runs them: in reverse, but the shared expert before the routed ones again, so that it
// computes while the message to these is on its way.
std::vector<Place> backward_order(std::vector<Place> places) {
  std::reverse(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i].segment == Segment::shared) std::swap(places[i - 1], places[i]);
  return places;
}

// What a chunk has of a micro-batch: buffers, -1 where there is none.
struct Held {
  int output = -1;                      // boundary of its last segment
  int input_gradient = -1;              // gradient of its first one's input
  std::vector<int> saved, weight_work;  // in the order of its forward; in that of its backward
};

class Expansion {
 public:
  Expansion(const model::ModelSpec& model, const ElementsByPart& elements, const Schedule& schedule,
            const std::vector<Chunk>& chunks, int stage)
      : model_(model),
        elements_(elements),
        held_(chunks.size() * static_cast<std::size_t>(schedule.num_micro_batches)),
        num_micro_batches_(schedule.num_micro_batches) {
    d_ = {.stage = stage,
          .num_stages = schedule.num_stages,
          .row = work(schedule.rows.at(stage)),
          .forward_only = schedule.forward_only,
          .chunks = chunks};
    d_.num_slots = static_cast<int>(d_.row.size());
    const Neighbours neighbours = neighbours_of(schedule, stage);
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
      const auto before = neighbours.previous[chunk], after = neighbours.next[chunk];
      d_.previous_stage.push_back(before.first);
      d_.next_stage.push_back(after.first);
      local_previous_.push_back(before.first == stage ? before.second : -1);
      local_next_.push_back(after.first == stage ? after.second : -1);
      forward_.push_back(places(model, chunks[chunk]));
      backward_.push_back(backward_order(forward_.back()));
    }
  }

  Draft run() {
    const std::vector<int> last_slot = last_slots(d_.row, num_micro_batches_);
    // All batches first: the number of valid targets, which seeds every loss, counts all of them.
    for (int mb = 0; mb < num_micro_batches_; ++mb) {
      batch_.push_back(d_.add_buffer({.kind = BufferKind::batch, .mb = mb}));
      d_.actions.push_back(d_.make({.kind = ActionKind::load_batch, .mb = mb, .allocates = {batch_.back()}}, -1));
    }
    for (int at = 0; at < d_.num_slots; ++at) {
      slot_ = at;
      switch (slot().kind) {
        case SlotKind::forward:
          forward();
          break;
        case SlotKind::weight_gradient:
          weight_gradients();
          break;
        default:
          gradients();
      }
      if (const int batch = slot().mb; last_slot[batch] == at) d_.actions.back().action.frees.push_back(batch_[batch]);
    }
    return std::move(d_);
  }

 private:
  const Slot& slot() const { return d_.row[slot_]; }
  Held& held(int chunk) { return held_[static_cast<std::size_t>(chunk) * num_micro_batches_ + slot().mb]; }

  int add(BufferKind kind, const Place& place, bool to_shared = false) {
    return d_.add_buffer({.kind = kind,
                          .segment = place.segment,
                          .to_shared = to_shared,
                          .mb = slot().mb,
                          .chunk = slot().chunk,
                          .layer = place.layer});
  }
  int allocate(Action& a, BufferKind kind, const Place& place, bool to_shared = false) {
    a.allocates.push_back(add(kind, place, to_shared));
    return a.allocates.back();
  }
  Action action(ActionKind kind, Pass pass, const Place& place) const {
    return {.kind = kind,
            .pass = pass,
            .segment = place.segment,
            .mb = slot().mb,
            .chunk = slot().chunk,
            .layer = place.layer};
  }
  void push(Action a) { d_.actions.push_back(d_.make(std::move(a), slot_)); }

  static void consume(Action& a, int& input) {
    if (input < 0) return;
    a.reads.push_back(input);
    a.frees.push_back(input);
    input = -1;
  }
  // What a neighbouring chunk of this stage has left for this one.
  int taken(int& left) const {
    TRIREME_CHECK(left >= 0, "stage {}: {} comes before what it needs", d_.stage, to_text(slot()));
    return std::exchange(left, -1);
  }
  bool has_shared(const Place& place) const {
    return place.layer >= 0 && model_.is_moe(place.layer) && model_.moe.shared_ffn > 0;
  }

  void forward() {
    const int chunk = slot().chunk;
    Held& here = held(chunk);
    int previous = -1;
    if (const int local = local_previous_[chunk]; local >= 0)
      previous = taken(held(local).output);
    else if (!d_.chunks[chunk].embed)
      previous = add(BufferKind::boundary, {});
    // What goes to the shared expert, and then what comes from it: it stands beside the chain of the others, since it
    // waits for none of their messages.
    int beside = -1;
    for (const Place& place : forward_[chunk]) {
      Action a = action(ActionKind::forward, Pass::forward, place);
      a.reads = {batch_[slot().mb]};
      int& chain = place.segment == Segment::shared ? beside : previous;
      consume(a, chain);
      if (place.segment == Segment::combine) consume(a, beside);
      if (place.segment != Segment::head) chain = allocate(a, BufferKind::boundary, place);
      if (place.segment == Segment::attention && has_shared(place))
        beside = allocate(a, BufferKind::boundary, place, /*to_shared=*/true);
      if (!d_.forward_only) here.saved.push_back(allocate(a, BufferKind::saved, place));
      push(std::move(a));
    }
    here.output = previous;
  }

  // A backward, or its input half.
  void gradients() {
    const int chunk = slot().chunk;
    const bool split = slot().kind == SlotKind::input_gradient;
    Held& here = held(chunk);
    int incoming = -1;
    if (const int local = local_next_[chunk]; local >= 0)
      incoming = taken(held(local).input_gradient);
    else if (!d_.chunks[chunk].head)
      incoming = add(BufferKind::gradient, {});
    TRIREME_CHECK(here.saved.size() == forward_[chunk].size(), "stage {}: {} comes before its forward", d_.stage,
                  to_text(slot()));
    int beside = -1;
    for (const Place& place : backward_[chunk]) {
      Action a = action(split ? ActionKind::input_gradient : ActionKind::backward, Pass::backward, place);
      const int saved = here.saved[forward_index(chunk, place)];
      a.reads = {batch_[slot().mb], saved};
      a.frees = {saved};
      int& chain = place.segment == Segment::shared ? beside : incoming;
      consume(a, chain);
      if (place.segment == Segment::attention) consume(a, beside);
      if (place.segment != Segment::embed) chain = allocate(a, BufferKind::gradient, place);
      if (place.segment == Segment::combine && has_shared(place))
        beside = allocate(a, BufferKind::gradient, place, /*to_shared=*/true);
      if (split) here.weight_work.push_back(has_weights(place) ? allocate(a, BufferKind::weight_work, place) : -1);
      push(std::move(a));
    }
    here.input_gradient = incoming;
    here.saved = {};
  }

  void weight_gradients() {
    const int chunk = slot().chunk;
    Held& here = held(chunk);
    TRIREME_CHECK(here.weight_work.size() == backward_[chunk].size(), "stage {}: {} comes before its input gradient",
                  d_.stage, to_text(slot()));
    for (std::size_t i = 0; i < backward_[chunk].size(); ++i) {
      int work = here.weight_work[i];
      if (work < 0) continue;
      Action a = action(ActionKind::weight_gradient, Pass::backward, backward_[chunk][i]);
      consume(a, work);
      push(std::move(a));
    }
    here.weight_work = {};
  }

  bool has_weights(const Place& place) const { return elements_.contains({place.layer, place.segment}); }
  std::size_t forward_index(int chunk, const Place& place) const {
    const auto& all = forward_[chunk];
    const auto same = [&](const Place& p) { return p.segment == place.segment && p.layer == place.layer; };
    return static_cast<std::size_t>(std::find_if(all.begin(), all.end(), same) - all.begin());
  }

  const model::ModelSpec& model_;
  const ElementsByPart& elements_;
  std::vector<std::vector<Place>> forward_, backward_;  // by chunk
  std::vector<int> local_previous_,
      local_next_;          // by chunk: the chunk of this stage that the piece before (after) it is; -1
  std::vector<Held> held_;  // by chunk and micro-batch
  std::vector<int> batch_;  // by micro-batch
  int num_micro_batches_;
  int slot_ = 0;
  Draft d_;
};

}  // namespace

Draft expand_segments(const model::ModelSpec& model, const ElementsByPart& elements, const Schedule& schedule,
                      const std::vector<Chunk>& chunks, int stage) {
  return Expansion(model, elements, schedule, chunks, stage).run();
}

}  // namespace trireme::plan
