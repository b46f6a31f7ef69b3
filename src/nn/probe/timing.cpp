#include "nn/probe/timing.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace trireme::nn {

double median_seconds(const std::function<void()>& call, const Repeat& repeat, c10::Device device) {
  using Clock = std::chrono::steady_clock;
  const auto wait = [&] {
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.has_index() ? device.index() : 0);
  };
  call();
  wait();
  std::vector<double> seconds;
  double spent = 0;
  while (static_cast<int>(seconds.size()) < repeat.at_least ||
         (spent < repeat.budget_s && static_cast<int>(seconds.size()) < repeat.at_most)) {
    const auto start = Clock::now();
    call();
    wait();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    spent += seconds.back();
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return std::max(seconds[seconds.size() / 2], 1e-9);
}

}  // namespace trireme::nn
