#include <map>

#include "base/errors.h"
#include "plan/lowering/chunk_passes.h"
#include "plan/lowering/slot_start.h"

namespace trireme::plan {

Draft add_activation_swaps(Draft d) {
  if (d.forward_only) return d;
  const std::vector<DraftAction> before = std::move(d.actions);
  d.actions.clear();
  std::map<std::pair<int, int>, int> host;  // buffer of a chunk and micro-batch
  std::vector<int> copies;                  // of the slot before
  SlotStart start;
  for (DraftAction at : before) {
    Action& a = at.action;
    if (a.kind == ActionKind::send) a.waits.insert(a.waits.end(), copies.begin(), copies.end());
    if (a.lane == Lane::compute) {
      a.waits.insert(a.waits.end(), copies.begin(), copies.end());
      copies.clear();
      const auto copy = [&](ActionKind kind, int mb, int chunk) {
        const bool out = kind == ActionKind::swap_out;
        Action c{.kind = kind, .pass = out ? Pass::forward : Pass::backward, .mb = mb, .chunk = chunk,
                 .lane = out ? Lane::copy : Lane::copy_in, .waits = start.of(a)};
        if (out) {
          c.allocates = {host[{chunk, mb}] = d.add_buffer({.kind = BufferKind::host, .mb = mb, .chunk = chunk})};
        } else {
          c.reads = c.frees = {host.at({chunk, mb})};
        }
        d.actions.push_back(d.make(std::move(c), at.slot));
        copies.push_back(d.actions.back().action.id);
      };
      const bool pair = a.kind == ActionKind::pair;
      if (a.kind == ActionKind::forward || pair) copy(ActionKind::swap_out, a.mb, a.chunk);
      if (pair) copy(ActionKind::swap_in, a.backward_mb, a.backward_chunk);
      if (a.kind == ActionKind::backward || a.kind == ActionKind::input_gradient) copy(ActionKind::swap_in, a.mb, a.chunk);
    }
    start.see(a);
    d.actions.push_back(std::move(at));
  }
  return d;
}

}  // namespace trireme::plan
