// When the phases of a step's exchanges ran, for its timeline.
#pragma once
#include <vector>

#include "comm/phase_log.h"
#include "plan/plan.h"
#include "plan/timeline.h"

namespace trireme::parallel {

class ExchangePhases {
 public:
  explicit ExchangePhases(const plan::StagePlan& stage) : of_action_(stage.actions.size()) {}

  void begin_step();
  // Of one action, by whichever thread runs it. `begin`: when it began to run.
  void set(const plan::Action& action, comm::PhaseLog::Clock::time_point begin, comm::PhaseLog log);
  // The timeline's spans are there.
  void add_to(plan::RankTimeline& timeline) const;

 private:
  std::vector<std::vector<plan::PhaseSpan>> of_action_;  // from the action's start
};

}  // namespace trireme::parallel
