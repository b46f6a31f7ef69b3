#include "plan/run_warnings.h"

#include <fmt/format.h>

namespace trireme::plan {

std::vector<std::string> warnings(const RunSpec& run) {
  std::vector<std::string> out;
  const LearningRateSpec& s = run.train.schedule;
  const std::int64_t steps = run.train.steps;
  if (s.warmup_steps > steps)
    out.push_back(fmt::format("train.schedule.warmup_steps = {} is more than train.steps ({}): the learning rate only rises, to {:.3g} of its "
                              "{:g}", s.warmup_steps, steps, static_cast<double>(steps) / static_cast<double>(s.warmup_steps),
                              run.train.optimizer.learning_rate));
  if (s.kind == "wsd" && s.decay_steps > steps)
    out.push_back(fmt::format("train.schedule.decay_steps = {} is more than train.steps ({}): the decay has begun before the first step",
                              s.decay_steps, steps));
  else if (s.kind == "wsd" && s.decay_steps > 0 && s.warmup_steps + s.decay_steps > steps && s.warmup_steps <= steps)
    out.push_back(fmt::format("train.schedule.warmup_steps ({}) and decay_steps ({}) are more than train.steps ({}): the decay begins "
                              "within the warm-up", s.warmup_steps, s.decay_steps, steps));
  if (run.device.device != "cpu") return out;
  // Measured with one thread (docs/performance.md): processor time of a step against float32's.
  if (run.device.dtype == DType::float16)
    out.push_back("device.dtype = float16 is slow on a CPU, which has no fast matrix products for it: a step took 12 times float32's "
                  "time where it was measured. float32 is the fastest there, bfloat16 takes as little memory as float16");
  if (run.device.dtype == DType::float64)
    out.push_back("device.dtype = float64 takes 2.3 times float32's time on a CPU where it was measured, and twice its memory");
  return out;
}

}  // namespace trireme::plan
