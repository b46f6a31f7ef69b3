#include "comm/timed_batches.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/ATen.h>

#include "base/processor_time.h"

namespace trireme::comm {
namespace {

double timed(const Group& group, const std::function<void()>& act, int times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) act();
  if (!group.device.is_cpu()) c10::impl::VirtualGuardImpl(group.device.type()).synchronizeDevice(group.device.index());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double reduced(Group& group, double value, ReduceOp op) {
  at::Tensor t = at::full({1}, value, at::TensorOptions(at::kDouble).device(group.device));
  all_reduce(group, t, op, "probe");
  return t.item<double>();
}

}  // namespace

TimedBatches::TimedBatches(Group& group, std::function<void()> once, double batch_s, int most_in_batch)
    : group_(group), once_(std::move(once)) {
  once_();
  const double one_s = reduced(group_, timed(group_, once_, 1), ReduceOp::max);
  in_batch_ = static_cast<int>(std::clamp(std::ceil(batch_s / std::max(one_s, 1e-9)), 1.0, double(most_in_batch)));
}

double TimedBatches::sample() {
  barrier(group_, "probe");
  const double processor_before = processor_seconds();
  const double mine_s = timed(group_, once_, in_batch_);
  const double processor_s = processor_seconds() - processor_before;
  const double slowest_s = reduced(group_, mine_s, ReduceOp::max);
  processor_s_ += reduced(group_, processor_s, ReduceOp::sum);
  wall_s_ += slowest_s;
  return slowest_s / in_batch_;
}

}  // namespace trireme::comm
