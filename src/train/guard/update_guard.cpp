#include "train/guard/update_guard.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/number_words.h"

namespace trireme::train {

UpdateGuard::UpdateGuard(const plan::TrainSpec& train, std::int64_t vocab_size)
    : train_(train), spikes_(train.loss_spike, vocab_size) {}

Judgement UpdateGuard::judge(const StepHealth& step) {
  const plan::LossSpikeSpec& spec = train_.loss_spike;
  const bool watched = spec.action != "off" && step.has_targets;
  if (std::string why = watched ? spikes_.why_spike(step.loss) : ""; !why.empty()) {
    if (spec.action == "skip") return skip(std::move(why));
    const std::int64_t bad_steps = skipped_ + 1;
    if (spec.action == "stop") return {Verdict::stop, std::move(why), bad_steps};
    if (rewinds_ == spec.max_rewinds)
      return {Verdict::stop, fmt::format("{}, and the run has gone back {} times (train.loss_spike.max_rewinds)", why, rewinds_),
              bad_steps};
    ++rewinds_;
    skipped_ = 0;
    return {Verdict::rewind, std::move(why), bad_steps};
  }
  if (watched) spikes_.accept(step.loss);
  if (!std::isfinite(step.gradient_norm)) return skip(fmt::format("the gradient norm is {}", without_nan_sign(step.gradient_norm)));
  skipped_ = 0;
  return {};
}

Judgement UpdateGuard::skip(std::string reason) {
  if (++skipped_ <= train_.max_skipped_updates) return {Verdict::skip, std::move(reason), skipped_};
  return {Verdict::stop, fmt::format("{}, and {} updates were skipped in a row before it (train.max_skipped_updates)", reason,
                                     train_.max_skipped_updates),
          skipped_};
}

nlohmann::json UpdateGuard::state() const {
  nlohmann::json out = spikes_.state();
  out["rewinds"] = rewinds_;
  return out;
}

void UpdateGuard::restore(const nlohmann::json& state, const std::string& file, const std::string& key) {
  const auto fail = [&](const std::string& at, const nlohmann::json& found, const char* allowed) {
    throw ConfigError({.file = file, .key = at, .value = found.dump(), .allowed = allowed});
  };
  if (!state.is_object()) fail(key, state, "must be an object");
  spikes_.restore(state, file, key);
  skipped_ = 0;  // no checkpoint is written while updates are skipped
  if (!state.contains("rewinds")) return;
  const nlohmann::json& rewinds = state["rewinds"];
  if (!rewinds.is_number_integer() || rewinds.get<double>() < 0 || rewinds.get<double>() > (1 << 20))
    fail(key + ".rewinds", rewinds, "must be a whole number from 0 to 1048576");
  rewinds_ = std::max(rewinds_, rewinds.get<std::int64_t>());
}

}  // namespace trireme::train
