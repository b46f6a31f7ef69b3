#include <array>

#include "plan/lowering/chunk_passes.h"

namespace trireme::plan {

namespace {

bool crosses(BufferKind kind) { return kind == BufferKind::boundary || kind == BufferKind::gradient; }

class Transfers {
 public:
  explicit Transfers(Draft& d) : d_(d) {
    // The peer of each pass whose messages come on the pass's first lane: that of the first chunk which has one.
    for (const bool forward : {true, false})
      for (const int peer : forward ? d.previous_stage : d.next_stage)
        if (first_peer_[forward] < 0 && peer != d.stage) first_peer_[forward] = peer;
  }

  Action receive(int buffer) const {
    Action message = of(buffer);
    const bool forward = message.pass == Pass::forward;
    message.kind = ActionKind::receive;
    message.peer_stage = (forward ? d_.previous_stage : d_.next_stage)[message.chunk];
    const bool turned = message.peer_stage != first_peer_[forward];
    message.lane = forward ? (turned ? Lane::turned_forward_receive : Lane::forward_receive)
                           : (turned ? Lane::turned_backward_receive : Lane::backward_receive);
    message.allocates = {buffer};
    return message;
  }

  // Where a buffer that a compute action has filled goes: another stage, or nowhere (-1).
  int target(int buffer) const {
    const Buffer& b = d_.buffers[buffer];
    if (!crosses(b.kind)) return -1;
    const int stage = (b.kind == BufferKind::boundary ? d_.next_stage : d_.previous_stage)[b.chunk];
    return stage == d_.stage ? -1 : stage;
  }

  Action send(int buffer, int target) const {
    Action message = of(buffer);
    message.kind = ActionKind::send;
    message.lane = message.pass == Pass::forward ? Lane::forward_send : Lane::backward_send;
    message.peer_stage = target;
    message.reads = message.frees = {buffer};
    return message;
  }

 private:
  Action of(int buffer) const {
    const Buffer& b = d_.buffers[buffer];
    return {.pass = b.kind == BufferKind::boundary ? Pass::forward : Pass::backward, .mb = b.mb, .chunk = b.chunk,
            .group = Axis::pp};
  }

  Draft& d_;
  std::array<int, 2> first_peer_{-1, -1};  // backward, forward
};

}  // namespace

Draft add_chunk_transfers(Draft d, bool beside_compute) {
  const Transfers transfers(d);
  const std::vector<DraftAction> compute = std::move(d.actions);
  d.actions.clear();
  std::vector<int> leaving;  // sends of the slot before, where the stage stands still for them
  for (const DraftAction& at : compute) {
    for (const int buffer : at.action.reads)
      if (d.buffers[buffer].message) d.actions.push_back(d.make(transfers.receive(buffer), at.slot));
    d.actions.push_back(at);
    d.actions.back().action.waits = leaving;
    leaving.clear();
    for (const int buffer : at.action.allocates)
      if (const int target = transfers.target(buffer); target >= 0) {
        d.actions.push_back(d.make(transfers.send(buffer, target), at.slot));
        if (!beside_compute) leaving.push_back(d.actions.back().action.id);
      }
  }
  return d;
}

}  // namespace trireme::plan
