#include "parallel/exchange_phases.h"

namespace trireme::parallel {

void ExchangePhases::begin_step() {
  for (auto& phases : of_action_) phases.clear();
}

void ExchangePhases::set(const plan::Action& action, comm::PhaseLog::Clock::time_point begin, comm::PhaseLog log) {
  std::vector<plan::PhaseSpan>& out = of_action_.at(static_cast<std::size_t>(action.id));
  const auto seconds = [&](comm::PhaseLog::Clock::time_point at) {
    return std::chrono::duration<double>(at - begin).count();
  };
  for (comm::PhaseLog::Entry& e : log.entries)
    out.push_back({action.id, std::move(e.part), std::move(e.phase), seconds(e.begin), seconds(e.end)});
}

void ExchangePhases::add_to(plan::RankTimeline& timeline) const {
  for (std::size_t action = 0; action < of_action_.size(); ++action)
    for (plan::PhaseSpan phase : of_action_[action]) {
      phase.start_s += timeline.spans.at(action).start_s;
      phase.end_s += timeline.spans.at(action).start_s;
      timeline.phases.push_back(std::move(phase));
    }
}

}  // namespace trireme::parallel
