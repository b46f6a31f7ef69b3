#include <algorithm>

#include "plan/lowering/chunk_passes.h"
#include "plan/lowering/slot_start.h"

namespace trireme::plan {

namespace {

// By chunk: the draft's place of its first forward, or of its last backward (of a split one the input half, after which
// the gradients begin to be complete); -1: there is none.
std::vector<int> places_of(const Draft& d, bool first_forward) {
  std::vector<int> out(d.chunks.size(), -1);
  for (int i = 0; i < static_cast<int>(d.actions.size()); ++i) {
    const Action& a = d.actions[i].action;
    const bool pair = a.kind == ActionKind::pair;
    if (first_forward) {
      if ((a.kind == ActionKind::forward || pair) && out[a.chunk] < 0) out[a.chunk] = i;
    } else if (a.kind == ActionKind::backward || a.kind == ActionKind::input_gradient || pair) {
      out[pair ? a.backward_chunk : a.chunk] = i;
    }
  }
  return out;
}

// Everything that has to be complete for the pipeline to be: the last slot, its copies, and sends that the stage waits for.
std::vector<int> pipeline_end(const Draft& d, bool sends) {
  std::vector<int> out;
  for (auto at = d.actions.rbegin(); at != d.actions.rend() && at->slot == d.num_slots - 1; ++at) {
    const Action& a = at->action;
    const bool copies = a.kind == ActionKind::swap_in || a.kind == ActionKind::swap_out;
    if (a.lane == Lane::compute || copies || (sends && a.kind == ActionKind::send)) out.push_back(a.id);
  }
  return out;
}

}  // namespace

Draft add_updates(Draft d, const UpdatePolicy& policy) {
  if (d.forward_only) return d;
  const std::vector<int> first_forward = places_of(d, true), last_backward = places_of(d, false);
  std::vector<int> end = pipeline_end(d, !policy.sends_beside);
  const std::vector<DraftAction> before = std::move(d.actions);
  d.actions.clear();
  SlotStart start;
  for (int i = 0; i < static_cast<int>(before.size()); ++i) {
    const DraftAction& at = before[i];
    const auto beside = [&](ActionKind kind, Pass pass, int chunk) {
      d.actions.push_back(d.make({.kind = kind, .pass = pass, .chunk = chunk, .lane = Lane::dp, .group = policy.data,
                                  .waits = start.of(at.action)},
                                 at.slot));
    };
    for (int chunk = 0; chunk < static_cast<int>(d.chunks.size()); ++chunk) {
      if (policy.gathers_beside && first_forward[chunk] == i)
        beside(ActionKind::gather, Pass::forward, chunk);
      if (policy.reduces_beside && last_backward[chunk] == i)
        beside(ActionKind::reduce, Pass::backward, chunk);
    }
    start.see(at.action);
    d.actions.push_back(at);
  }

  const auto append = [&](Action action) {
    action.waits = end;
    d.actions.push_back(d.make(std::move(action), d.num_slots));
    return d.actions.back().action.id;
  };
  if (policy.reduces)
    end = {append({.kind = ActionKind::reduce, .pass = Pass::backward, .lane = Lane::dp, .group = policy.data})};
  if (policy.swaps_states) {
    // The first slice comes in before anything can be updated; all that follow, and the way out, beside the updates.
    end = {append({.kind = ActionKind::swap_in, .pass = Pass::backward, .lane = Lane::copy_in})};
    const int out = append({.kind = ActionKind::swap_out, .pass = Pass::backward, .lane = Lane::copy});
    end = {append({.kind = ActionKind::optimizer}), out};
  } else {
    end = {append({.kind = ActionKind::optimizer})};
  }
  if (policy.gathers) append({.kind = ActionKind::gather, .lane = Lane::dp, .group = policy.data});
  return d;
}

}  // namespace trireme::plan
