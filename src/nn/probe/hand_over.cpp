#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "nn/probe/compute_probe.h"

namespace trireme::nn {

double probe_hand_over(double seconds) {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;  // 0: ours, 1: the other's, 2: the end
  std::thread other([&] {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return turn != 0; });
      if (turn == 2) return;
      turn = 0;
      changed.notify_all();
    }
  });
  double sum = 0;
  int trips = 0;
  const auto begin = Clock::now();
  {
    std::unique_lock lock(mutex);
    while (trips < 20 || std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
      // Both threads have slept before a hand-over counts, as lanes have.
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      lock.lock();
      const auto start = Clock::now();
      turn = 1;
      changed.notify_all();
      changed.wait(lock, [&] { return turn == 0; });
      sum += std::chrono::duration<double>(Clock::now() - start).count();
      ++trips;
    }
    turn = 2;
  }
  changed.notify_all();
  other.join();
  return std::max(sum / trips / 2, 1e-9);
}

}  // namespace trireme::nn
