#include "train/guard/loss_spikes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/number_words.h"

namespace trireme::train {
namespace {

constexpr std::int64_t fewest_losses = 8;    // that a median is taken of
constexpr double least_part_of_guesses = 0.1;

double median(const std::deque<double>& losses) {
  std::vector<double> sorted(losses.begin(), losses.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (sorted.size() % 2) return *middle;
  return (*middle + *std::max_element(sorted.begin(), middle)) / 2;
}

}  // namespace

LossSpikes::LossSpikes(const plan::LossSpikeSpec& spec, std::int64_t vocab_size)
    : spec_(spec), equal_guesses_(std::log(static_cast<double>(std::max<std::int64_t>(vocab_size, 2)))) {}

std::optional<LossSpikes::Reference> LossSpikes::reference() const {
  if (!first_) return std::nullopt;
  if (static_cast<std::int64_t>(losses_.size()) < std::min(spec_.window, fewest_losses)) {
    if (*first_ > equal_guesses_) return Reference{*first_, "the run's first loss"};
    return Reference{equal_guesses_, "the loss of equal guesses, ln(vocab_size)"};
  }
  const double typical = median(losses_), least = least_part_of_guesses * equal_guesses_;
  if (typical < least) return Reference{least, "a tenth of ln(vocab_size)"};
  return Reference{typical, fmt::format("the median of the last {} losses", losses_.size())};
}

std::string LossSpikes::why_spike(double loss) const {
  if (!std::isfinite(loss)) return fmt::format("the loss is {}", without_nan_sign(loss));
  const auto held_against = reference();
  if (!held_against || loss <= spec_.factor * held_against->loss) return {};
  return fmt::format("the loss is {:.6g}, more than {:g} times {:.4g}, {}", loss, spec_.factor, held_against->loss,
                     held_against->what);
}

void LossSpikes::accept(double loss) {
  if (!first_) first_ = loss;
  losses_.push_back(loss);
  while (static_cast<std::int64_t>(losses_.size()) > spec_.window) losses_.pop_front();
}

nlohmann::json LossSpikes::state() const {
  nlohmann::json out = {{"losses", losses_}};
  if (first_) out["first_loss"] = *first_;
  return out;
}

void LossSpikes::restore(const nlohmann::json& state, const std::string& file, const std::string& key) {
  const auto number = [&](const nlohmann::json& value, const std::string& name) {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      throw ConfigError({.file = file, .key = key + "." + name, .value = value.dump(), .allowed = "must be a finite number"});
    return value.get<double>();
  };
  first_.reset();
  losses_.clear();
  if (state.contains("first_loss")) first_ = number(state["first_loss"], "first_loss");
  if (!state.contains("losses")) return;
  if (!state["losses"].is_array())
    throw ConfigError({.file = file, .key = key + ".losses", .value = state["losses"].dump(), .allowed = "must be a list of numbers"});
  for (const nlohmann::json& loss : state["losses"]) accept(number(loss, "losses"));
}

}  // namespace trireme::train
