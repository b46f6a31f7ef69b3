// metrics.jsonl: one StepMetrics a line, written and flushed at once, so that a reader (or a crash) sees whole lines.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/append_file.h"
#include "train/metrics/step_metrics.h"

namespace trireme::train {

class MetricsLog {
 public:
  // Continues behind step `last_step` (0: from the start): lines of later steps, and a last line that a crash cut
  // short, are removed, so that a resumed run leaves one line a step. ConfigError with the file where it cannot be
  // written.
  MetricsLog(const std::filesystem::path& path, std::int64_t last_step);

  void write(const StepMetrics& metrics);  // RuntimeFailure with the file where it fails

 private:
  std::unique_ptr<AppendFile> file_;
};

// Whole lines of a metrics file, in their order; lines that don't parse are an error (ConfigError with the line).
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);

}  // namespace trireme::train
