// What rank 0 says while the other ranks of a launch have not come.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/log.h"

namespace trireme::apps {

// Says after two seconds, and every ten, for what this rank waits; until it ends.
class WaitForRanks {
 public:
  WaitForRanks(int world, std::chrono::milliseconds at_most)
      : thread_([world, end = std::chrono::steady_clock::now() + at_most](std::stop_token stop) {
          std::mutex mutex;
          std::condition_variable_any ends;
          std::unique_lock lock(mutex);
          for (std::chrono::seconds pause(2);; pause = std::chrono::seconds(10)) {
            if (ends.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); })) return;
            const auto left = std::chrono::duration_cast<std::chrono::seconds>(end - std::chrono::steady_clock::now());
            if (left.count() > 0)
              spdlog::info("waits until all {} ranks have come (for {} s more at most)", world, left.count() + 1);
          }
        }) {}

 private:
  std::jthread thread_;  // stopped and joined at the end
};

}  // namespace trireme::apps
