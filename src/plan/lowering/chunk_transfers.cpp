#include "plan/lowering/chunk_passes.h"
#include "plan/lowering/message_lanes.h"

namespace trireme::plan {

namespace {

bool crosses(BufferKind kind) { return kind == BufferKind::boundary || kind == BufferKind::gradient; }

class Transfers {
 public:
  explicit Transfers(const Draft& d) : d_(d), lanes_(d) {}

  Action receive(int buffer) const {
    Action message = of(buffer);
    const bool forward = message.pass == Pass::forward;
    message.kind = ActionKind::receive;
    message.peer_stage = (forward ? d_.previous_stage : d_.next_stage)[message.chunk];
    message.lane = lanes_.receive(message.pass, message.peer_stage);
    message.group = message_group(message.peer_stage, d_.stage, !forward);
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
    // Receives are posted from the step's start on, so that a send waits for none but those before it: one lane will
    // do.
    message.lane = message.pass == Pass::forward ? Lane::forward_send : Lane::backward_send;
    message.peer_stage = target;
    message.group = message_group(d_.stage, target, message.pass == Pass::backward);
    message.reads = message.frees = {buffer};
    return message;
  }

 private:
  Action of(int buffer) const {
    const Buffer& b = d_.buffers[buffer];
    return {.pass = b.kind == BufferKind::boundary ? Pass::forward : Pass::backward, .mb = b.mb, .chunk = b.chunk};
  }

  const Draft& d_;
  const MessageLanes lanes_;
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
