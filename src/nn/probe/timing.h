// Medians of repeated calls, bounded in time.
#pragma once
#include <functional>

#include <c10/core/Device.h>

namespace trireme::nn {

struct Repeat {
  int at_least = 3;
  int at_most = 200;
  double budget_s = 0.02;  // stops when it is spent and at_least calls are done
};

// Calls once to warm up, then repeatedly; on an accelerator each call is waited for.
double median_seconds(const std::function<void()>& call, const Repeat& repeat, c10::Device device);

}  // namespace trireme::nn
