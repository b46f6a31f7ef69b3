#include "train/metrics/console_progress.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/number_words.h"
#include "base/units.h"

namespace trireme::train {
namespace {

constexpr double weight_of_newest = 0.1;  // about ten steps remembered

std::string describe_rate(double tokens_per_s) {
  if (tokens_per_s >= 1e6) return fmt::format("{:.2f}M tok/s", tokens_per_s / 1e6);
  if (tokens_per_s >= 1e3) return fmt::format("{:.2f}k tok/s", tokens_per_s / 1e3);
  return fmt::format("{:.0f} tok/s", tokens_per_s);
}

std::string describe_step_time(const StepMetrics& m) {
  const std::string measured = fmt::format("step {:.3f} s", m.measured_step_s);
  if (m.predicted_step_s <= 0) return measured;
  const double error = 100 * (m.measured_step_s / m.predicted_step_s - 1);
  return fmt::format("{} (predicted {:.3f}, {:+.0f}%)", measured, m.predicted_step_s, error);
}

}  // namespace

std::string ConsoleProgress::line(const StepMetrics& m) {
  // The first step is left out as soon as there is a second one.
  ++num_seen_;
  average_step_s_ =
      num_seen_ <= 2 ? m.measured_step_s : average_step_s_ + weight_of_newest * (m.measured_step_s - average_step_s_);
  const std::size_t width = std::max<std::size_t>(fmt::formatted_size("{}", num_steps_), 1);
  std::string out = fmt::format("step {:>{}}/{}  loss {:.4f}", m.step, width, num_steps_, without_nan_sign(m.loss));
  if (m.eval_loss) out += fmt::format("  eval {:.4f}", without_nan_sign(*m.eval_loss));
  if (m.eval_loss_by_set.size() > 1) {
    std::vector<std::string> sets;
    for (const auto& [name, loss] : m.eval_loss_by_set) sets.push_back(fmt::format("{} {:.4f}", name, without_nan_sign(loss)));
    out += fmt::format(" [{}]", fmt::join(sets, ", "));
  }
  if (m.bigram_loss) out += fmt::format(" (bigram {:.4f})", *m.bigram_loss);
  out += fmt::format("  grad {:.3g}  lr {:.1e}  {}  {:.3g} TFLOP/s  {}", without_nan_sign(m.grad_norm), m.learning_rate,
                     describe_rate(m.tokens_per_s), m.model_tflops, describe_step_time(m));
  if (m.expert_load_max_over_mean > 0) out += fmt::format("  load {:.1f}x", m.expert_load_max_over_mean);
  if (m.peak_memory_bytes > 0) out += fmt::format("  peak {}", describe_bytes(m.peak_memory_bytes));
  const std::int64_t left = std::max<std::int64_t>(num_steps_ - m.step, 0);
  return out + fmt::format("  left {}", describe_duration(static_cast<double>(left) * average_step_s_));
}

std::string describe_duration(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m {:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d {}h", s / 86400, s / 3600 % 24);
}

std::string describe_bytes(double bytes) {
  return bytes < GiB ? fmt::format("{:.0f} MiB", bytes / MiB) : fmt::format("{:.2f} GiB", bytes / GiB);
}

}  // namespace trireme::train
