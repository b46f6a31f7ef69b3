// Executes a stage's actions on one rank: each lane in list order, an action when everything that it waits for is
// complete. On CPU a thread a communication lane (made once) and the caller's thread for compute; on an accelerator the
// caller's thread issues all onto streams.
#pragma once
#include <functional>
#include <memory>

#include "parallel/segment_runner.h"
#include "parallel/stage_context.h"

namespace trireme::parallel {

class Lanes;

struct ExecutorOptions {
  int rank = 0;
  at::Device device = at::kCPU;
  // Called once when an action fails, before run() throws: ends what other lanes are blocked in (Communicator::abort).
  std::function<void()> on_failure;
  std::function<std::string(const plan::Action&)> group_name;  // of a communicating action, for errors; may be empty
};

class Executor {
 public:
  // stage and runner outlive the executor.
  Executor(const plan::StagePlan& stage, SegmentRunner& runner, ExecutorOptions options);
  ~Executor();

  // One step. Always on the same thread. The first failure of any lane is thrown as RuntimeFailure (of memory: as
  // nn::OutOfMemory) with the rank, the action and its group; a failed check stays a std::logic_error, with rank and action; a ConfigError stays as it is.
  // Afterwards the executor is of no use.
  StepResult run();

 private:
  [[noreturn]] void raise(std::exception_ptr error, const plan::Action& action) const;

  const plan::StagePlan& stage_;
  SegmentRunner& runner_;
  ExecutorOptions options_;
  std::unique_ptr<Lanes> lanes_;
};

}  // namespace trireme::parallel
