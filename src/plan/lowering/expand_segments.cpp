#include <algorithm>
#include <set>

#include "base/errors.h"
#include "plan/lowering/draft.h"

namespace trireme::plan {

namespace {

// Slots of a micro-batch whose batch is still needed after this one.
int last_slot_of(const std::vector<Slot>& row, int mb) {
  for (int i = static_cast<int>(row.size()) - 1; i >= 0; --i)
    if (row[i].mb == mb) return i;
  return -1;
}

}  // namespace

Draft expand_segments(const model::ModelSpec& model, const Schedule& schedule, const std::vector<Chunk>& chunks,
                      int stage) {
  const auto& row = schedule.rows.at(stage);
  Draft d{.stage = stage, .num_stages = schedule.num_stages, .num_slots = static_cast<int>(row.size()),
          .forward_only = schedule.forward_only, .chunks = chunks};

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
    const int count = static_cast<int>(segments.size());
    const auto buffer = [&](BufferKind what, const Place& place) {
      return Buffer{.kind = what, .segment = place.segment, .mb = mb, .chunk = chunk, .layer = place.layer};
    };
    TRIREME_CHECK(!joined && (kind == SlotKind::forward || kind == SlotKind::backward),
                  "split backward and joined slots are lowered by no pass");
    if (kind == SlotKind::forward) {
      int previous = chunks[chunk].embed ? -1 : d.add_buffer(buffer(BufferKind::boundary, {}));
      for (const Place& place : segments) {
        Action a{.kind = ActionKind::forward, .pass = Pass::forward, .segment = place.segment, .mb = mb,
                 .chunk = chunk, .layer = place.layer, .reads = {batch_buffer[mb]}};
        if (previous >= 0) {
          a.reads.push_back(previous);
          a.frees.push_back(previous);
        }
        previous = -1;
        if (place.segment != Segment::head) a.allocates.push_back(previous = d.add_buffer(buffer(BufferKind::boundary, place)));
        if (!schedule.forward_only) a.allocates.push_back(d.add_buffer(buffer(BufferKind::saved, place)));
        d.actions.push_back(d.make(std::move(a), slot));
      }
    } else {
      int incoming = chunks[chunk].head ? -1 : d.add_buffer(buffer(BufferKind::gradient, {}));
      for (int i = count - 1; i >= 0; --i) {
        const Place& place = segments[i];
        Action a{.kind = ActionKind::backward, .pass = Pass::backward, .segment = place.segment, .mb = mb,
                 .chunk = chunk, .layer = place.layer, .reads = {batch_buffer[mb]}};
        const int saved = d.find_buffer(buffer(BufferKind::saved, place));
        TRIREME_CHECK(saved >= 0, "a backward before its forward");
        a.reads.push_back(saved);
        a.frees.push_back(saved);
        if (incoming >= 0) {
          a.reads.push_back(incoming);
          a.frees.push_back(incoming);
        }
        incoming = -1;
        if (place.segment != Segment::embed)
          a.allocates.push_back(incoming = d.add_buffer(buffer(BufferKind::gradient, place)));
        d.actions.push_back(d.make(std::move(a), slot));
      }
    }
    if (last_slot_of(row, mb) == slot) d.actions.back().action.frees.push_back(batch_buffer[mb]);
  }
  return d;
}

}  // namespace trireme::plan
