// Waiting for a given time, asleep, as exactly as the system allows: many ranks of a rehearsal share a host's cores, so
// nothing spins.
#pragma once
#include <chrono>

namespace trireme::parallel {

// The waits of one lane. A sleeper wakes some tens of microseconds late: the next wait is so much shorter, so that a chain
// of waits takes its sum. More than `most_carried` is not made up for: that was no sleeper's delay, but a busy host.
class TimedWait {
 public:
  static constexpr std::chrono::milliseconds most_carried{1};

  using Clock = std::chrono::steady_clock;
  // Blocks until `seconds` behind `begin`, which is now or a moment ago: what was done since is a part of the wait.
  void wait(Clock::time_point begin, double seconds);

 private:
  Clock::duration late_{0};
};

}  // namespace trireme::parallel
