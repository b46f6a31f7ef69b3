#include "base/errors.h"
#include "plan/lowering/chunk_passes.h"

namespace trireme::plan {

namespace {

// What a chunk has of a micro-batch: buffers, -1 where there is none.
struct Held {
  int output = -1;          // boundary to the next piece
  int input_gradient = -1;  // gradient for the piece before
  int saved = -1, weight_work = -1;
};

class Expansion {
 public:
  Expansion(const Schedule& schedule, const std::vector<Chunk>& chunks, int stage)
      : schedule_(schedule), neighbours_(neighbours_of(schedule, stage)), held_(chunks.size() * schedule.num_micro_batches) {
    d_ = {.stage = stage, .num_stages = schedule.num_stages, .forward_only = schedule.forward_only, .chunks = chunks};
    for (const auto& [other, chunk] : neighbours_.previous) d_.previous_stage.push_back(other);
    for (const auto& [other, chunk] : neighbours_.next) d_.next_stage.push_back(other);
  }

  Draft run() {
    const auto& row = schedule_.rows.at(d_.stage);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].kind == SlotKind::no_op) continue;
      const Slot& first = row[i];
      Action a{.mb = first.mb, .chunk = first.chunk};
      if (first.joined) {
        const bool forward_first = first.kind == SlotKind::forward;
        const Slot &f = forward_first ? first : row.at(i + 1), &b = forward_first ? row.at(i + 1) : first;
        // `kind` of a joined input gradient would be another kind of pair, which no schedule has.
        TRIREME_CHECK(b.kind == SlotKind::backward, "a joined input gradient is lowered by no pass");
        a = {.kind = ActionKind::pair, .mb = f.mb, .chunk = f.chunk, .backward_mb = b.mb, .backward_chunk = b.chunk};
        forward(a, f);
        gradients(a, b);
        ++i;
      } else if (first.kind == SlotKind::forward) {
        forward(a, first);
      } else if (first.kind == SlotKind::weight_gradient) {
        a.kind = ActionKind::weight_gradient, a.pass = Pass::backward;
        consume(a, held(first).weight_work);
      } else {
        a.kind = first.kind == SlotKind::backward ? ActionKind::backward : ActionKind::input_gradient;
        a.pass = Pass::backward;
        gradients(a, first);
      }
      d_.actions.push_back(d_.make(std::move(a), d_.num_slots++));
    }
    return std::move(d_);
  }

 private:
  Held& held(int chunk, int mb) { return held_[static_cast<std::size_t>(chunk) * schedule_.num_micro_batches + mb]; }
  Held& held(const Slot& slot) { return held(slot.chunk, slot.mb); }

  int make(Action& a, BufferKind kind, const Slot& slot) {
    a.allocates.push_back(d_.add_buffer({.kind = kind, .mb = slot.mb, .chunk = slot.chunk}));
    return a.allocates.back();
  }
  void consume(Action& a, int buffer) {
    TRIREME_CHECK(buffer >= 0, "stage {}: {} comes before what it needs", d_.stage, plan::describe(a));
    a.reads.push_back(buffer);
    a.frees.push_back(buffer);
  }
  int incoming(BufferKind kind, const Slot& slot) {
    return d_.add_buffer({.kind = kind, .message = true, .mb = slot.mb, .chunk = slot.chunk});
  }

  void forward(Action& a, const Slot& slot) {
    Held& here = held(slot);
    if (const auto [stage, chunk] = neighbours_.previous[slot.chunk]; stage >= 0)
      consume(a, stage == d_.stage ? held(chunk, slot.mb).output : incoming(BufferKind::boundary, slot));
    if (neighbours_.next[slot.chunk].first >= 0) here.output = make(a, BufferKind::boundary, slot);
    if (!d_.forward_only) here.saved = make(a, BufferKind::saved, slot);
  }

  void gradients(Action& a, const Slot& slot) {
    Held& here = held(slot);
    if (const auto [stage, chunk] = neighbours_.next[slot.chunk]; stage >= 0)
      consume(a, stage == d_.stage ? held(chunk, slot.mb).input_gradient : incoming(BufferKind::gradient, slot));
    consume(a, here.saved);
    if (neighbours_.previous[slot.chunk].first >= 0) here.input_gradient = make(a, BufferKind::gradient, slot);
    if (a.kind == ActionKind::input_gradient) here.weight_work = make(a, BufferKind::weight_work, slot);
  }

  const Schedule& schedule_;
  const Neighbours neighbours_;
  std::vector<Held> held_;  // by chunk and micro-batch
  Draft d_;
};

}  // namespace

Draft expand_chunks(const Schedule& schedule, const std::vector<Chunk>& chunks, int stage) {
  return Expansion(schedule, chunks, stage).run();
}

}  // namespace trireme::plan
