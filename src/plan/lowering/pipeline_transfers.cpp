#include <algorithm>
#include <map>

#include "base/errors.h"
#include "plan/lowering/draft.h"
#include "plan/lowering/message_lanes.h"

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

// By slot: the first slot of its unit, which is a slot alone or a joined pair.
std::vector<int> units(const std::vector<Slot>& row) {
  std::vector<int> out;
  for (int i = 0; i < static_cast<int>(row.size()); ++i) out.push_back(i > 0 && row[i - 1].joined ? out.back() : i);
  return out;
}

}  // namespace

Draft add_pipeline_transfers(Draft d) {
  if (d.num_stages == 1) return d;
  std::vector<DraftAction> before = std::move(d.actions);
  d.actions.clear();
  const MessageLanes lanes(d);
  const std::vector<int> unit = units(d.row);

  // Where each slot begins, and its last compute action.
  std::vector<std::size_t> first_in_slot(static_cast<std::size_t>(d.num_slots), before.size());
  std::vector<int> last_compute(static_cast<std::size_t>(d.num_slots), -1);
  for (std::size_t i = before.size(); i-- > 0;) {
    const int slot = before[i].slot;
    if (slot < 0) continue;
    first_in_slot[slot] = i;
    if (before[i].action.lane == Lane::compute && last_compute[slot] < 0) last_compute[slot] = before[i].action.id;
  }

  d.actions.reserve(before.size() + 4 * static_cast<std::size_t>(d.num_slots));
  std::multimap<std::size_t, DraftAction> insert_before;  // receives
  std::multimap<std::size_t, DraftAction> insert_after;   // sends
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Action& a = before[i].action;
    const bool forward = a.kind == ActionKind::forward;
    if (!forward && a.kind != ActionKind::backward && a.kind != ActionKind::input_gradient) continue;
    const BufferKind kind = forward ? BufferKind::boundary : BufferKind::gradient;
    Action message{.pass = a.pass, .mb = a.mb, .chunk = a.chunk};
    if (const int in = input_of(d, a, kind); in >= 0) {
      message.kind = ActionKind::receive;
      message.peer_stage = (forward ? d.previous_stage : d.next_stage).at(a.chunk);
      message.lane = lanes.receive(a.pass, message.peer_stage);
      message.group = message_group(message.peer_stage, d.stage, !forward);
      message.allocates = {in};
      // One unit ahead: the message travels while the unit before computes, and at most one such buffer is idle.
      const int own = unit[before[i].slot], ahead = own > 0 ? unit[own - 1] : 0;
      if (own > 0 && ahead > 0) message.waits = {last_compute[ahead - 1]};
      insert_before.emplace(first_in_slot[ahead], d.make(message, ahead));
    }
    const bool last_in_slot = i + 1 == before.size() || before[i + 1].slot != before[i].slot;
    const int target = (forward ? d.next_stage : d.previous_stage).at(a.chunk);
    if (const int out = output_of(d, a, kind); out >= 0 && last_in_slot && target != d.stage) {
      message.kind = ActionKind::send;
      message.lane = lanes.send(a.pass, target);
      message.peer_stage = target;
      message.group = message_group(d.stage, target, !forward);
      message.waits = {};
      message.allocates = {};
      message.reads = {out};
      message.frees = {out};
      insert_after.emplace(i, d.make(message, before[i].slot));
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (auto [at, end] = insert_before.equal_range(i); at != end; ++at) d.actions.push_back(std::move(at->second));
    d.actions.push_back(std::move(before[i]));
    for (auto [at, end] = insert_after.equal_range(i); at != end; ++at) d.actions.push_back(std::move(at->second));
  }
  return d;
}

}  // namespace trireme::plan
