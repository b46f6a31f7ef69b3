#include "sim/sampled_load.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace trireme::sim {

using plan::Action;
using plan::ActionKind;

std::vector<plan::MeasuredRank> sampled_rows(const plan::Plan& plan, const plan::RunSpec& run, double cv,
                                             std::uint64_t seed) {
  const plan::AxisStrides strides = plan.mesh.strides();
  const int experts = static_cast<int>(run.model.moe.num_experts), ep = plan.mesh.ep, local = experts / ep;
  const double equal =
      static_cast<double>(run.batch.micro_batch * run.batch.sequence_length * run.model.moe.router.top_k);
  const std::uint64_t key = stream_key(seed, "expert load");
  std::vector<float> rows(static_cast<std::size_t>(experts));
  std::vector<plan::MeasuredRank> out;
  for (int rank = 0; rank < plan.mesh.world(); ++rank) {
    const int place = strides.index(Axis::ep, rank);
    const int group = rank - place * static_cast<int>(strides.stride_of(Axis::ep));  // its first rank
    const auto& actions = plan.stages[static_cast<std::size_t>(plan.mesh.pp_index(rank))].actions;
    plan::MeasuredRank& of_rank = out.emplace_back(plan::MeasuredRank{.rank = rank});
    of_rank.expert_rows.assign(actions.size(), 0);
    for (const Action& a : actions) {
      if (a.kind != ActionKind::forward || a.segment != plan::Segment::experts) continue;
      const auto draw = (static_cast<std::uint64_t>(group) << 40 | static_cast<std::uint64_t>(a.layer) << 24 |
                         static_cast<std::uint64_t>(a.mb)) *
                        static_cast<std::uint64_t>(experts);
      random_normal(key, draw, rows, 1, cv);
      for (float& r : rows) r = std::max(r, 0.0F);
      const double all = std::accumulate(rows.begin(), rows.end(), 0.0);
      const double own = std::accumulate(rows.begin() + place * local, rows.begin() + (place + 1) * local, 0.0);
      const double share = all > 0 ? own / all * ep : 1;
      of_rank.expert_rows[static_cast<std::size_t>(a.id)] = std::round(32 * share) / 32 * equal;
    }
  }
  return out;
}

}  // namespace trireme::sim
