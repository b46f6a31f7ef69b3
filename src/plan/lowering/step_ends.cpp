#include <algorithm>

#include "plan/lowering/draft.h"

namespace trireme::plan {

Draft add_step_ends(Draft d, const model::ModelSpec& model, const Mesh& mesh) {
  const auto is_load = [](const DraftAction& a) { return a.action.kind == ActionKind::load_batch; };
  const auto first_slot = std::find_if_not(d.actions.begin(), d.actions.end(), is_load);

  Action count{.kind = ActionKind::count_tokens, .lane = Lane::dp, .group = mesh.data_group()};
  for (auto at = d.actions.begin(); at != first_slot; ++at) {
    count.waits.push_back(at->action.id);
    count.reads.insert(count.reads.end(), at->action.allocates.begin(), at->action.allocates.end());
  }
  const DraftAction counted = d.make(std::move(count), -1);
  const int counted_id = counted.action.id;
  d.actions.insert(first_slot, counted);

  // The count seeds the loss in the head's forward and the auxiliary losses in the first backward; and the batches that
  // it reads are not freed under it.
  const auto is_batch = [&](int buffer) { return d.buffers[buffer].kind == BufferKind::batch; };
  bool seen = false;
  for (DraftAction& at : d.actions) {
    Action& a = at.action;
    const bool needs = a.kind == ActionKind::backward || a.kind == ActionKind::input_gradient ||
                       (a.kind == ActionKind::forward && a.segment == Segment::head) ||
                       std::any_of(a.frees.begin(), a.frees.end(), is_batch);
    if (!needs || a.lane != Lane::compute || seen) continue;
    a.waits.push_back(counted_id);
    seen = true;
  }

  int last_compute = -1, last_reduction = -1;
  for (const DraftAction& a : d.actions) {
    if (a.action.lane == Lane::compute) last_compute = a.action.id;
    if (a.action.lane == Lane::dp) last_reduction = a.action.id;
  }
  const auto append = [&](Action action) {
    d.actions.push_back(d.make(std::move(action), d.num_slots));
    return d.actions.back().action.id;
  };
  if (model.moe.num_experts > 0 && !d.forward_only)
    append({.kind = ActionKind::reduce_counts, .lane = Lane::dp, .group = mesh.data_group(), .waits = {last_compute}});
  if (!d.forward_only)
    last_compute = append({.kind = ActionKind::gradient_norm, .lane = Lane::compute, .waits = {last_reduction}});
  const int metrics = append(
      {.kind = ActionKind::reduce_metrics, .lane = Lane::dp, .group = world_group, .waits = {last_compute}});
  if (!d.forward_only) append({.kind = ActionKind::optimizer, .lane = Lane::compute, .waits = {metrics}});
  return d;
}

}  // namespace trireme::plan
