// Times what all members of a group do together, from inside the ranks: a sample is a batch of repetitions behind one
// barrier, so that the barrier's own skew weighs little; a repetition's time is the slowest member's.
#pragma once
#include <functional>
#include <vector>

#include "comm/group.h"

namespace trireme::comm {

class TimedBatches {
 public:
  // Collective: two untimed repetitions, the second of which says how many make a batch of `batch_s` (at most
  // most_in_batch).
  TimedBatches(Group& group, std::function<void()> once, double batch_s, int most_in_batch = 100);
  // Collective: one sample, seconds a repetition; the same on every member.
  double sample();
  int in_batch() const { return in_batch_; }
  // Processor seconds of all members over wall seconds, in the samples so far: cores that were busy.
  double busy_cores() const { return wall_s_ > 0 ? processor_s_ / wall_s_ : 0; }

 private:
  Group& group_;
  std::function<void()> once_;
  int in_batch_ = 1;
  double processor_s_ = 0, wall_s_ = 0;
};

}  // namespace trireme::comm
