// Actions by kind, for tables: what a step's time consists of.
#pragma once
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/timeline.h"

namespace trireme::report {

// "forward attention", "all_to_all backward dispatch", "receive forward", "reduce experts": the rows of tables.
std::string kind_of(const plan::Action& action, const plan::StagePlan& stage);

struct KindTime {
  std::string kind;
  plan::Lane lane = plan::Lane::compute;
  int count = 0;        // in a step, over all ranks
  double total_s = 0;   // likewise, waiting for partners included
  bool operator==(const KindTime&) const = default;
};

// In the order in which kinds first appear. `length` gives the seconds of an action of a rank's timeline.
std::vector<KindTime> by_kind(const plan::Plan& plan, const std::vector<plan::RankTimeline>& ranks);

// Seconds that a rank's lane is occupied by actions.
double lane_s(const plan::StagePlan& stage, const std::vector<plan::Span>& spans, plan::Lane lane);

// One row of `width` characters: what the compute lane does along [0, step_s): F forward, B backward, o optimizer and
// norm, l loading, . nothing. A character shows what fills most of its time.
std::string compute_strip(const plan::StagePlan& stage, const std::vector<plan::Span>& spans, double step_s, int width);

}  // namespace trireme::report
