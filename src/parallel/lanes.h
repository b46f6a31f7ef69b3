// How a stage's lanes are executed: LaneThreads (CPU: a thread a communication lane, the caller's thread computes) or
// LaneStreams (accelerators: one thread issues everything in the plan's total order, onto one stream a lane).
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "parallel/segment_runner.h"
#include "parallel/stream.h"
#include "plan/plan.h"

namespace trireme::parallel {

struct LaneFailure {
  std::exception_ptr error;
  int action = -1;
};

class Lanes {
 public:
  virtual ~Lanes() = default;
  // Runs every action once. spans is aligned with the actions. When an action throws, no further one starts, on_failure
  // is called once, and the first failure is given back when all lanes have stopped.
  virtual LaneFailure run(std::vector<plan::Span>& spans) = 0;
};

std::unique_ptr<Lanes> make_lane_threads(const plan::StagePlan& stage, SegmentRunner& runner,
                                         std::function<void()> on_failure);
std::unique_ptr<Lanes> make_lane_streams(const plan::StagePlan& stage, SegmentRunner& runner, at::Device device,
                                         std::function<void()> on_failure);

}  // namespace trireme::parallel
