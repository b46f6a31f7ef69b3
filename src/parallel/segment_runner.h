// What the executor runs: one plan action at a time. Two implementations: tensors (TensorRunner) and a rehearsal with
// real messages but compute replaced by waiting (EmulatedRunner).
#pragma once
#include "parallel/step.h"
#include "plan/pipeline/action.h"

namespace trireme::parallel {

class SegmentRunner {
 public:
  virtual ~SegmentRunner() = default;
  virtual void begin_step() = 0;
  // Called by several threads at once, on CPU one a lane; the plan's waits order what touches the same buffer. Blocks
  // until the action is complete (on an accelerator: issued to the current stream).
  virtual void run(const plan::Action& action) = 0;
  // After all actions. Adds its sums to the result; checks that nothing of the step is left alive.
  virtual void end_step(StepResult& result) = 0;
};

}  // namespace trireme::parallel
