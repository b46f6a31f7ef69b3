#include <algorithm>
#include <map>

#include "base/errors.h"
#include "plan/lowering/draft.h"

namespace trireme::plan {

namespace {

int input_of(const Draft& d, const Action& a, BufferKind kind) {
  for (int buffer : a.reads)
    if (d.buffers[buffer].kind == kind && d.buffers[buffer].segment == Segment::none) return buffer;
  return -1;
}

int output_of(const Draft& d, const Action& a, BufferKind kind) {
  for (int buffer : a.allocates)
    if (d.buffers[buffer].kind == kind && !d.buffers[buffer].message) return buffer;
  return -1;
}

}  // namespace

Draft add_pipeline_transfers(Draft d) {
  if (d.num_stages == 1) return d;
  std::vector<DraftAction> before = std::move(d.actions);
  d.actions.clear();

  // Where each slot begins, and its last compute action.
  std::map<int, std::size_t> first_in_slot;
  std::map<int, int> last_compute;
  for (std::size_t i = 0; i < before.size(); ++i) {
    first_in_slot.try_emplace(before[i].slot, i);
    if (before[i].action.lane == Lane::compute) last_compute[before[i].slot] = before[i].action.id;
  }

  std::multimap<std::size_t, DraftAction> insert_before;  // receives
  std::multimap<std::size_t, DraftAction> insert_after;   // sends
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Action& a = before[i].action;
    const bool forward = a.kind == ActionKind::forward;
    if (!forward && a.kind != ActionKind::backward) continue;
    const BufferKind kind = forward ? BufferKind::boundary : BufferKind::gradient;
    Action message{.pass = a.pass, .mb = a.mb, .chunk = a.chunk, .group = Axis::pp};
    if (const int in = input_of(d, a, kind); in >= 0) {
      message.kind = ActionKind::receive;
      message.lane = forward ? Lane::forward_receive : Lane::backward_receive;
      message.peer_stage = (forward ? d.previous_stage : d.next_stage).at(a.chunk);
      message.allocates = {in};
      // One slot ahead: the message travels while the slot before computes, and at most one such buffer is idle.
      const int slot = before[i].slot;
      if (slot >= 2) message.waits = {last_compute.at(slot - 2)};
      insert_before.emplace(first_in_slot.at(std::max(0, slot - 1)), d.make(message, std::max(0, slot - 1)));
    }
    const bool last_in_slot = i + 1 == before.size() || before[i + 1].slot != before[i].slot;
    const int target = (forward ? d.next_stage : d.previous_stage).at(a.chunk);
    if (const int out = output_of(d, a, kind); out >= 0 && last_in_slot && target != d.stage) {
      message.kind = ActionKind::send;
      message.lane = forward ? Lane::forward_send : Lane::backward_send;
      message.peer_stage = target;
      message.waits = {};
      message.allocates = {};
      message.reads = {out};
      message.frees = {out};
      insert_after.emplace(i, d.make(message, before[i].slot));
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (auto [at, end] = insert_before.equal_range(i); at != end; ++at) d.actions.push_back(at->second);
    d.actions.push_back(std::move(before[i]));
    for (auto [at, end] = insert_after.equal_range(i); at != end; ++at) d.actions.push_back(at->second);
  }
  return d;
}

}  // namespace trireme::plan
