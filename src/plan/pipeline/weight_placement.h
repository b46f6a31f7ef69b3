// Where a split schedule's weight gradients go. The order of forwards and input gradients stays; the weight gradients
// are taken out and put into the gaps that these leave with the times given.
#pragma once
#include <vector>

#include "plan/pipeline/generators.h"

namespace trireme::plan {

// A weight gradient is taken before the next slot when that slot's input is not there and at least `least_gap` of the
// weight gradient fits before it is, when more than `pending` are due (0: no limit), or when the next slot is a forward
// and the stage holds as many as it may.
struct WeightRule {
  double least_gap = 0;  // 0: any gap
  int pending = 0;
  bool as_given = false;  // where the schedule has them, whatever the rest says
};

struct PlacedWeights {
  double makespan_s = 0;
  std::vector<std::vector<Slot>> rows;
};

// `times` by [stage * num_chunks + chunk]; a stage holds at most `max_in_flight` forwards whose weight gradient is not
// done (more where the order of forwards and input gradients alone needs more). Cost: linear in slots. Rows only if
// asked for.
PlacedWeights place_weights(const Schedule& split, const std::vector<SlotTimes>& times, int max_in_flight,
                            const WeightRule& rule, bool rows);

// The schedule with its weight gradients where they are or placed by a rule, whichever gives the shortest step. With
// many micro-batches the rule is chosen on the first of them, since the steady state repeats. Where `times` is empty
// the schedule as it is; one entry stands for all chunks.
Schedule with_weights_by_times(Schedule split, const std::vector<SlotTimes>& times, int max_in_flight);

}  // namespace trireme::plan
