#include "sim/predicted_phases.h"

#include <algorithm>

namespace trireme::sim {

std::vector<plan::PhaseSpan> predicted_phases(const plan::Plan& plan, const plan::Costs& costs,
                                              const plan::RankTimeline& timeline) {
  std::vector<plan::PhaseSpan> out;
  const int stage = plan.mesh.pp_index(timeline.rank);
  const plan::StageCosts& of_stage = costs.stages.at(static_cast<std::size_t>(stage));
  for (const plan::Action& a : plan.stages.at(static_cast<std::size_t>(stage)).actions) {
    if (a.kind != plan::ActionKind::all_to_all) continue;
    const bool backward = a.pass == plan::Pass::backward;
    const auto found = std::find_if(of_stage.exchanges.begin(), of_stage.exchanges.end(),
                                    [&](const auto& e) { return e.segment == a.segment && e.backward == backward; });
    if (found == of_stage.exchanges.end()) continue;
    const plan::Span& span = timeline.spans.at(static_cast<std::size_t>(a.id));
    const double price = of_stage.action_s.at(static_cast<std::size_t>(a.id)), length = span.end_s - span.start_s;
    const double waited = std::max(0.0, length - price), scale = price > length && price > 0 ? length / price : 1;
    for (plan::PhaseSpan phase : found->phases) {
      const bool first = phase.start_s == 0;
      phase.action = a.id;
      phase.start_s = span.start_s + (first ? 0 : waited + phase.start_s * scale);
      phase.end_s = span.start_s + waited + phase.end_s * scale;
      out.push_back(std::move(phase));
    }
  }
  return out;
}

}  // namespace trireme::sim
