#include <algorithm>

#include "plan/lowering/chunk_passes.h"

namespace trireme::plan {

UpdatePolicy update_policy(const LayoutSpec& l) {
  const int dense = l.dp * l.cp, expert = std::max(1, dense * l.tp / (l.ep * l.etp));
  const bool several = dense > 1 || expert > 1;
  const auto hybrid = [](int degree, int all) { return degree > 0 && degree < all; };
  UpdatePolicy out{.data = mesh_of(l).data_group(),
                   .sends_beside = l.overlap.pipeline,
                   .swaps_states = l.swap.has(Swap::optimizer)};
  // Parameters that are sharded are gathered, and their gradients scattered, inside the slots; what is left is the sum
  // over the sets of shards.
  out.reduces = l.sharding == Sharding::parameters
                    ? hybrid(l.shard_degree, dense) || hybrid(l.expert_shard_degree, expert)
                    : several;
  out.gathers = several && (l.sharding == Sharding::optimizer || l.sharding == Sharding::gradients);
  out.reduces_beside = out.reduces && l.overlap.gradients;
  out.gathers_beside = out.gathers && l.overlap.parameters;
  return out;
}

Plan lower_chunks(const LayoutSpec& layout, const Mesh& mesh, const Schedule& schedule, const std::vector<Chunk>& pieces) {
  Plan plan{.mesh = mesh, .grain = Grain::chunk, .schedule = schedule, .all_to_all = layout.all_to_all,
            .num_micro_batches = schedule.num_micro_batches};
  for (int stage = 0; stage < schedule.num_stages; ++stage) {
    std::vector<Chunk> chunks;
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
      const int piece = piece_of(schedule, stage, chunk);
      chunks.push_back(piece < 0 ? Chunk{} : pieces.at(piece));
    }
    Draft d = expand_chunks(schedule, chunks, stage);
    d = add_chunk_transfers(std::move(d), layout.overlap.pipeline);
    if (layout.swap.has(Swap::activations)) d = add_activation_swaps(std::move(d));
    d = add_updates(std::move(d), update_policy(layout));
    plan.stages.push_back(finish(std::move(d)));
  }
  return plan;
}

}  // namespace trireme::plan
