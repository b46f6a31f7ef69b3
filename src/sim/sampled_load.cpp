#include "sim/sampled_load.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/errors.h"
#include "base/rng.h"

namespace trireme::sim {

using plan::Action;
using plan::ActionKind;

int expert_group(const plan::Mesh& mesh, int rank) {
  const plan::AxisStrides strides = mesh.strides();
  return rank - strides.index(Axis::ep, rank) * static_cast<int>(strides.stride_of(Axis::ep));
}

std::vector<float> expert_weights(const RoutedLoad& load, int num_experts, int group, int layer, int mb) {
  std::vector<float> out(static_cast<std::size_t>(num_experts), 1.0F);
  if (const auto counted = load.counts.find(layer); counted != load.counts.end()) {
    TRIREME_CHECK(counted->second.size() == out.size(), "layer {}: the load of {} experts for {}", layer,
                  counted->second.size(), num_experts);
    std::transform(counted->second.begin(), counted->second.end(), out.begin(),
                   [](double n) { return static_cast<float>(n); });
    return out;
  }
  if (load.cv <= 0) return out;
  const auto draw = (static_cast<std::uint64_t>(group) << 40 | static_cast<std::uint64_t>(layer) << 24 |
                     static_cast<std::uint64_t>(mb)) *
                    static_cast<std::uint64_t>(num_experts);
  random_normal(stream_key(load.seed, "expert load"), draw, out, 1, load.cv);
  for (float& r : out) r = std::max(r, 0.0F);
  return out;
}

std::vector<std::int64_t> whole_rows(const std::vector<float>& weights, std::int64_t tokens, std::int64_t top_k) {
  const std::size_t n = weights.size();
  TRIREME_CHECK(top_k >= 0 && static_cast<std::size_t>(top_k) <= n, "{} of {} experts", top_k, n);
  const auto most = static_cast<double>(tokens);
  std::vector<double> share(n, 0);
  double left = static_cast<double>(tokens) * static_cast<double>(top_k);
  // Each round fills at least one more expert to the brim, or ends.
  std::vector<char> full(n, 0);
  for (bool again = left > 0; again;) {
    double sum = 0, open = 0;
    for (std::size_t e = 0; e < n; ++e)
      if (!full[e]) sum += weights[e], ++open;
    again = false;
    for (std::size_t e = 0; e < n; ++e)
      if (!full[e]) share[e] = left * (sum > 0 ? weights[e] / sum : 1 / open);
    for (std::size_t e = 0; e < n; ++e)
      if (!full[e] && share[e] > most) full[e] = 1, again = true;
    if (!again) break;
    left = static_cast<double>(tokens) * static_cast<double>(top_k);
    for (std::size_t e = 0; e < n; ++e)
      if (full[e]) share[e] = most, left -= most;
  }
  // The largest fractions are rounded up, until all rows are there.
  std::vector<std::int64_t> out(n);
  for (std::size_t e = 0; e < n; ++e) out[e] = std::min(tokens, static_cast<std::int64_t>(share[e]));
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return share[a] - static_cast<double>(out[a]) > share[b] - static_cast<double>(out[b]);
  });
  std::int64_t missing = tokens * top_k - std::accumulate(out.begin(), out.end(), std::int64_t{0});
  while (missing > 0)
    for (std::size_t i = 0; i < n && missing > 0; ++i)
      if (out[order[i]] < tokens) ++out[order[i]], --missing;
  return out;
}

std::vector<plan::MeasuredRank> sampled_rows(const plan::Plan& plan, const plan::RunSpec& run, const RoutedLoad& load) {
  const plan::AxisStrides strides = plan.mesh.strides();
  const int experts = static_cast<int>(run.model.moe.num_experts), ep = plan.mesh.ep, local = experts / ep;
  const double equal =
      static_cast<double>(run.batch.micro_batch * run.batch.sequence_length * run.model.moe.router.top_k);
  std::vector<plan::MeasuredRank> out;
  for (int rank = 0; rank < plan.mesh.world(); ++rank) {
    const int place = strides.index(Axis::ep, rank);
    const auto& actions = plan.stages[static_cast<std::size_t>(plan.mesh.pp_index(rank))].actions;
    plan::MeasuredRank& of_rank = out.emplace_back(plan::MeasuredRank{.rank = rank});
    of_rank.expert_rows.assign(actions.size(), 0);
    for (const Action& a : actions) {
      if (a.kind != ActionKind::forward || a.segment != plan::Segment::experts) continue;
      const std::vector<float> rows = expert_weights(load, experts, expert_group(plan.mesh, rank), a.layer, a.mb);
      const double all = std::accumulate(rows.begin(), rows.end(), 0.0);
      const double own = std::accumulate(rows.begin() + place * local, rows.begin() + (place + 1) * local, 0.0);
      const double share = all > 0 ? own / all * ep : 1;
      of_rank.expert_rows[static_cast<std::size_t>(a.id)] = std::round(32 * share) / 32 * equal;
    }
  }
  return out;
}

}  // namespace trireme::sim
