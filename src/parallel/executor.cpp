#include "parallel/executor.h"

#include <chrono>

#include "base/errors.h"
#include "comm/error_text.h"
#include "nn/out_of_memory.h"
#include "parallel/lanes.h"

namespace trireme::parallel {

Executor::Executor(const plan::StagePlan& stage, SegmentRunner& runner, ExecutorOptions options)
    : stage_(stage), runner_(runner), options_(std::move(options)) {
  lanes_ = options_.device.is_cpu() ? make_lane_threads(stage_, runner_, options_.on_failure)
                                    : make_lane_streams(stage_, runner_, options_.device, options_.on_failure);
}

Executor::~Executor() = default;

StepResult Executor::run() {
  StepResult result;
  result.timeline.rank = options_.rank;
  result.timeline.spans.resize(stage_.actions.size());
  runner_.begin_step();
  const auto start = std::chrono::steady_clock::now();
  const LaneFailure failure = lanes_->run(result.timeline.spans);
  if (failure.error) raise(failure.error, stage_.actions.at(failure.action));
  result.timeline.step_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  runner_.end_step(result);
  return result;
}

void Executor::raise(std::exception_ptr error, const plan::Action& action) const {
  RuntimeFailure::Detail detail{.rank = options_.rank, .operation = plan::describe(action)};
  if (action.lane != plan::Lane::compute && options_.group_name) detail.group = options_.group_name(action);
  try {
    std::rethrow_exception(error);
  } catch (const RuntimeFailure& failure) {
    // Communication knows more: the rank at fault and its own words for the operation.
    detail.reason = failure.detail().reason;
    if (failure.detail().rank >= 0) detail.rank = failure.detail().rank;
    if (!failure.detail().operation.empty()) detail.operation = failure.detail().operation;
    if (!failure.detail().group.empty()) detail.group = failure.detail().group;
  } catch (const ConfigError&) {
    throw;
  } catch (const std::logic_error& bug) {  // a failed check
    if (const auto memory = nn::out_of_memory(bug)) {  // a container too long to be
      detail.reason = *memory;
      throw nn::OutOfMemory(detail);
    }
    throw std::logic_error(fmt::format("{} (rank {}, {})", bug.what(), detail.rank, detail.operation));
  } catch (const std::exception& other) {
    if (const auto memory = nn::out_of_memory(other)) {
      detail.reason = *memory;
      throw nn::OutOfMemory(detail);
    }
    detail.reason = comm::error_text(other);
  }
  throw RuntimeFailure(detail);
}

}  // namespace trireme::parallel
