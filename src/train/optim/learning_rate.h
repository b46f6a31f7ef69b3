// The learning rate as a pure function of the step: nothing to checkpoint.
#pragma once
#include <cstdint>

#include "plan/run_spec.h"

namespace trireme::train {

// Learning rate of step `step` (counted from 1) of a run of `num_steps`. Linear warm-up: step s of the first W has
// peak * s / W. Then
//   cosine:   peak * (r + (1 - r) (1 + cos(pi p)) / 2), p = (s - W) / (num_steps - W), r = min_ratio
//   linear:   peak * (1 - (1 - r) p)
//   wsd:      peak (stable) until the last decay_steps, which fall linearly to peak * r at the last step
//   constant: peak
// Steps behind the last keep the last one's value. ConfigError (train.schedule.kind) for another kind.
double learning_rate(const plan::LearningRateSpec& spec, double peak, std::int64_t num_steps, std::int64_t step);

}  // namespace trireme::train
