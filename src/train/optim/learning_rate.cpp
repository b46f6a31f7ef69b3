#include "train/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"

namespace trireme::train {
namespace {

double cosine(const plan::LearningRateSpec& spec, std::int64_t num_steps, std::int64_t step) {
  const auto length = std::max<std::int64_t>(num_steps - spec.warmup_steps, 1);
  const double progress = static_cast<double>(step - spec.warmup_steps) / static_cast<double>(length);
  return spec.min_ratio + (1 - spec.min_ratio) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

double linear(const plan::LearningRateSpec& spec, std::int64_t num_steps, std::int64_t step) {
  const auto length = std::max<std::int64_t>(num_steps - spec.warmup_steps, 1);
  const double progress = static_cast<double>(step - spec.warmup_steps) / static_cast<double>(length);
  return 1 - (1 - spec.min_ratio) * progress;
}

double warmup_stable_decay(const plan::LearningRateSpec& spec, std::int64_t num_steps, std::int64_t step) {
  const std::int64_t into_decay = step - (num_steps - spec.decay_steps);
  if (into_decay <= 0) return 1;
  const double progress = static_cast<double>(into_decay) / static_cast<double>(spec.decay_steps);
  return 1 - (1 - spec.min_ratio) * progress;
}

}  // namespace

double learning_rate(const plan::LearningRateSpec& spec, double peak, std::int64_t num_steps, std::int64_t step) {
  const bool known = spec.kind == "cosine" || spec.kind == "linear" || spec.kind == "wsd" || spec.kind == "constant";
  if (!known) {
    throw ConfigError({.key = "train.schedule.kind", .value = spec.kind, .allowed = "cosine, linear, wsd or constant"});
  }
  if (step <= spec.warmup_steps && spec.warmup_steps > 0) {
    return peak * static_cast<double>(step) / static_cast<double>(spec.warmup_steps);
  }
  step = std::min(step, num_steps);
  if (spec.kind == "cosine") return peak * cosine(spec, num_steps, step);
  if (spec.kind == "linear") return peak * linear(spec, num_steps, step);
  if (spec.kind == "wsd") return peak * warmup_stable_decay(spec, num_steps, step);
  return peak;
}

}  // namespace trireme::train
