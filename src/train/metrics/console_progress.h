// A step as one line for people:
//
//   step   120/2000  loss 4.6571  eval 4.7012  grad 1.32  lr 3.0e-04  5.21k tok/s  0.043 TFLOP/s
//                    step 0.393 s (predicted 0.371, +6%)  load 1.8x  peak 412 MiB  left 12m 40s
//
// (on one line). Pure text: the caller prints it.
#pragma once
#include <cstdint>
#include <string>

#include "train/metrics/step_metrics.h"

namespace trireme::train {

class ConsoleProgress {
 public:
  explicit ConsoleProgress(std::int64_t num_steps) : num_steps_(num_steps) {}

  // Time left follows from a moving average of the measured step times (not of the first step, which also warms up).
  std::string line(const StepMetrics& metrics);

 private:
  std::int64_t num_steps_;
  int num_seen_ = 0;
  double average_step_s_ = 0;
};

std::string describe_duration(double seconds);  // "42s", "12m 40s", "3h 05m", "2d 4h"
std::string describe_bytes(double bytes);       // "412 MiB", "1.50 GiB"

}  // namespace trireme::train
