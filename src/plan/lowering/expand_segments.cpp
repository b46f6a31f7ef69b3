#include <algorithm>
#include <set>

#include "base/errors.h"
#include "plan/lowering/draft.h"

namespace trireme::plan {

namespace {

// By micro-batch, the slot after which its batch is not needed any more.
std::vector<int> last_slots(const std::vector<Slot>& row, int num_micro_batches) {
  std::vector<int> out(static_cast<std::size_t>(num_micro_batches), -1);
  for (std::size_t i = 0; i < row.size(); ++i) out.at(static_cast<std::size_t>(row[i].mb)) = static_cast<int>(i);
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

}  // namespace

Draft expand_segments(const model::ModelSpec& model, const Schedule& schedule, const std::vector<Chunk>& chunks,
                      int stage) {
  const auto row = work(schedule.rows.at(stage));
  Draft d{.stage = stage, .num_stages = schedule.num_stages, .num_slots = static_cast<int>(row.size()),
          .forward_only = schedule.forward_only, .chunks = chunks};

  // By chunk: the chunk of this stage that the piece before (after) it is, -1: none or another stage's.
  std::vector<int> local_previous, local_next;
  const Neighbours neighbours = neighbours_of(schedule, stage);
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const auto before = neighbours.previous[chunk], after = neighbours.next[chunk];
    d.previous_stage.push_back(before.first);
    d.next_stage.push_back(after.first);
    local_previous.push_back(before.first == stage ? before.second : -1);
    local_next.push_back(after.first == stage ? after.second : -1);
  }

  const std::vector<int> last_slot = last_slots(row, schedule.num_micro_batches);
  // All batches first: the number of valid targets, which seeds every loss, counts all of them.
  std::vector<int> batch_buffer(schedule.num_micro_batches);
  for (int mb = 0; mb < schedule.num_micro_batches; ++mb) {
    batch_buffer[mb] = d.add_buffer({.kind = BufferKind::batch, .mb = mb});
    d.actions.push_back(
        d.make({.kind = ActionKind::load_batch, .mb = mb, .allocates = {batch_buffer[mb]}}, -1));
  }

  for (int slot = 0; slot < static_cast<int>(row.size()); ++slot) {
    const auto [kind, mb, chunk, joined] = row[slot];
    const auto segments = places(model, chunks.at(chunk));
    const auto buffer = [&, mb = mb, chunk = chunk](BufferKind what, const Place& place, bool to_shared = false) {
      return Buffer{.kind = what, .segment = place.segment, .to_shared = to_shared, .mb = mb, .chunk = chunk, .layer = place.layer};
    };
    const auto has_shared = [&](const Place& place) {
      return place.layer >= 0 && model.is_moe(place.layer) && model.moe.shared_ffn > 0;
    };
    const auto consume = [](Action& a, int& input) {
      if (input < 0) return;
      a.reads.push_back(input);
      a.frees.push_back(input);
      input = -1;
    };
    // What goes to the shared expert, and then what comes from it: it stands beside the chain of the others, since it
    // waits for none of their messages.
    int beside = -1;
    // What a neighbouring chunk of this stage has left for this one.
    const auto from_chunk = [&, mb = mb](BufferKind what, int other, const Place& place) {
      const int found = d.find_buffer({.kind = what, .segment = place.segment, .mb = mb, .chunk = other, .layer = place.layer});
      TRIREME_CHECK(found >= 0, "chunk {} comes before what it needs", other);
      return found;
    };
    TRIREME_CHECK(!joined && (kind == SlotKind::forward || kind == SlotKind::backward),
                  "split backward and joined slots are lowered by no pass");
    if (kind == SlotKind::forward) {
      int previous = -1;
      if (const int local = local_previous[chunk]; local >= 0)
        previous = from_chunk(BufferKind::boundary, local, places(model, chunks[local]).back());
      else if (!chunks[chunk].embed)
        previous = d.add_buffer(buffer(BufferKind::boundary, {}));
      for (const Place& place : segments) {
        Action a{.kind = ActionKind::forward, .pass = Pass::forward, .segment = place.segment, .mb = mb,
                 .chunk = chunk, .layer = place.layer, .reads = {batch_buffer[mb]}};
        int& chain = place.segment == Segment::shared ? beside : previous;
        consume(a, chain);
        if (place.segment == Segment::combine) consume(a, beside);
        if (place.segment != Segment::head) a.allocates.push_back(chain = d.add_buffer(buffer(BufferKind::boundary, place)));
        if (place.segment == Segment::attention && has_shared(place))
          a.allocates.push_back(beside = d.add_buffer(buffer(BufferKind::boundary, place, /*to_shared=*/true)));
        if (!schedule.forward_only) a.allocates.push_back(d.add_buffer(buffer(BufferKind::saved, place)));
        d.actions.push_back(d.make(std::move(a), slot));
      }
    } else {
      int incoming = -1;
      if (const int local = local_next[chunk]; local >= 0)
        incoming = from_chunk(BufferKind::gradient, local, places(model, chunks[local]).front());
      else if (!chunks[chunk].head)
        incoming = d.add_buffer(buffer(BufferKind::gradient, {}));
      for (const Place& place : backward_order(segments)) {
        Action a{.kind = ActionKind::backward, .pass = Pass::backward, .segment = place.segment, .mb = mb,
                 .chunk = chunk, .layer = place.layer, .reads = {batch_buffer[mb]}};
        const int saved = d.find_buffer(buffer(BufferKind::saved, place));
        TRIREME_CHECK(saved >= 0, "a backward before its forward");
        a.reads.push_back(saved);
        a.frees.push_back(saved);
        int& chain = place.segment == Segment::shared ? beside : incoming;
        consume(a, chain);
        if (place.segment == Segment::attention) consume(a, beside);
        if (place.segment != Segment::embed)
          a.allocates.push_back(chain = d.add_buffer(buffer(BufferKind::gradient, place)));
        if (place.segment == Segment::combine && has_shared(place))
          a.allocates.push_back(beside = d.add_buffer(buffer(BufferKind::gradient, place, /*to_shared=*/true)));
        d.actions.push_back(d.make(std::move(a), slot));
      }
    }
    if (last_slot[mb] == slot) d.actions.back().action.frees.push_back(batch_buffer[mb]);
  }
  return d;
}

}  // namespace trireme::plan
