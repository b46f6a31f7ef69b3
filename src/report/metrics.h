// What metrics.jsonl of a run says: one JSON object a line, written by rank 0.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace trireme::report {

struct Metrics {
  std::vector<std::pair<double, double>> loss;          // (step, training loss)
  std::vector<std::pair<double, double>> valid_loss;    // (step, validation loss)
  std::vector<std::pair<double, double>> tokens_per_s;
  std::vector<std::pair<double, double>> step_s;
  double bigram_loss = 0;                               // of the validation text, where the run computed it; else 0
  bool operator==(const Metrics&) const = default;
};

// Lines may have any keys; used are step, loss, eval_loss, tokens_per_s, measured_step_s, bigram_loss: numbers, or null where
// one was not finite. A last line that is cut (a killed run) is dropped; any other broken line is a ConfigError with its
// number and key. No file: empty.
// A step that occurs again (after a resume) replaces the earlier one.
Metrics read_metrics(const std::filesystem::path& file);

double median_of(const std::vector<std::pair<double, double>>& series);  // of the second values; 0 when empty

}  // namespace trireme::report
