#include "sim/actual_load.h"

#include <cmath>
#include <map>

#include "sim/memory_cost.h"
#include "sim/operator_cost.h"

namespace trireme::sim {

using plan::Action;
using plan::ActionKind;
using plan::Segment;

std::vector<std::vector<double>> load_scale(const plan::Plan& plan, const plan::RunSpec& run,
                                            const Rates& rates, int threads,
                                            const std::vector<plan::MeasuredRank>& measured) {
  const model::SegmentShape balanced = segment_shape(run, plan.mesh, threads);
  std::map<std::pair<plan::Pass, std::int64_t>, double> known;  // routed layers are alike
  const auto price = [&](const Action& a, double rows) {
    model::SegmentShape shape = balanced;
    shape.rows_received = std::llround(rows);
    const auto [at, fresh] = known.try_emplace({a.pass, shape.rows_received}, 0);
    if (fresh) at->second = operators_time(model::operators(run.model, a.segment, a.layer, a.pass, shape), rates).value;
    return at->second;
  };
  std::vector<std::vector<double>> out;
  for (int rank = 0; rank < plan.mesh.world(); ++rank)
    out.emplace_back(plan.stages[plan.mesh.pp_index(rank)].actions.size(), 1.0);
  for (const plan::MeasuredRank& m : measured) {
    if (m.expert_rows.empty() || m.rank < 0 || m.rank >= plan.mesh.world()) continue;
    const auto& actions = plan.stages[plan.mesh.pp_index(m.rank)].actions;
    std::map<std::pair<int, int>, double> rows;  // of a micro-batch and layer
    for (const Action& a : actions)
      if (a.kind == ActionKind::forward && a.segment == Segment::experts && a.id < static_cast<int>(m.expert_rows.size()))
        rows[{a.mb, a.layer}] = m.expert_rows[a.id];
    for (const Action& a : actions) {
      const bool computes = a.kind == ActionKind::forward || a.kind == ActionKind::backward ||
                            a.kind == ActionKind::input_gradient || a.kind == ActionKind::weight_gradient;
      if (!computes || a.segment != Segment::experts) continue;
      const double equal = price(a, static_cast<double>(balanced.rows_received));
      if (const auto at = rows.find({a.mb, a.layer}); at != rows.end() && equal > 0)
        out[m.rank][a.id] = price(a, at->second) / equal;
    }
  }
  return out;
}

}  // namespace trireme::sim
