#include <algorithm>

#include "plan/lowering/draft.h"

namespace trireme::plan {

Draft add_expert_transfers(Draft d, int ep) {
  if (ep == 1) return d;
  std::vector<DraftAction> before = std::move(d.actions);
  d.actions.clear();
  d.actions.reserve(before.size() * 2);
  for (DraftAction& at : before) {
    Action& a = at.action;
    // Forward: experts read what dispatch brings, combine reads what comes back. Backward: the transposes, in reverse.
    const bool forward = a.kind == ActionKind::forward;
    const bool backward = a.kind == ActionKind::backward || a.kind == ActionKind::input_gradient;
    Segment exchange = Segment::none;
    if (a.segment == Segment::experts && forward) exchange = Segment::dispatch;
    if (a.segment == Segment::combine && forward) exchange = Segment::combine;
    if (a.segment == Segment::experts && backward) exchange = Segment::combine;
    const BufferKind kind = forward ? BufferKind::boundary : BufferKind::gradient;
    // The backward of dispatch stands before that of the attention whose layer has experts.
    if (a.segment == Segment::attention && backward &&
        std::any_of(a.reads.begin(), a.reads.end(), [&](int buffer) {
          return d.buffers[buffer].kind == BufferKind::gradient && d.buffers[buffer].segment == Segment::experts;
        }))
      exchange = Segment::dispatch;
    if (exchange != Segment::none) {
      const auto is_input = [&](int buffer) {
        return d.buffers[buffer].kind == kind && d.buffers[buffer].segment != Segment::shared;
      };
      const auto read = std::find_if(a.reads.begin(), a.reads.end(), is_input);
      const int sent = *read;
      const int received = d.add_buffer({.kind = kind, .segment = exchange, .message = true, .mb = a.mb,
                                         .chunk = a.chunk, .layer = a.layer});
      *read = received;
      std::replace(a.frees.begin(), a.frees.end(), sent, received);
      // The shared expert, before the others, reads no message: it computes while theirs is on its way.
      const bool shared = !d.actions.empty() && a.segment == Segment::experts &&
                          d.actions.back().action.segment == Segment::shared;
      d.actions.insert(d.actions.end() - shared,
                       d.make({.kind = ActionKind::all_to_all, .pass = a.pass, .segment = exchange, .mb = a.mb,
                               .chunk = a.chunk, .layer = a.layer, .lane = Lane::ep, .group = Axis::ep,
                               .reads = {sent}, .allocates = {received}, .frees = {sent}},
                              at.slot));
    }
    d.actions.push_back(std::move(at));
  }
  return d;
}

}  // namespace trireme::plan
