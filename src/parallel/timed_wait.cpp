#include "parallel/timed_wait.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

namespace trireme::parallel {

void TimedWait::wait(Clock::time_point begin, double seconds) {
  // By default the kernel may put a thread's timers off by 50 us to wake several at once.
  static thread_local const bool exact = ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0;
  static_cast<void>(exact);
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)) - late_;
  std::this_thread::sleep_until(end);
  late_ = std::clamp<Clock::duration>(Clock::now() - end, Clock::duration::zero(), most_carried);
}

}  // namespace trireme::parallel
