// What is known of one step, on rank 0: the console, metrics.jsonl, TensorBoard and `--json` all show this.
#pragma once
#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

namespace trireme::train {

struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0;                       // mean cross-entropy, nats a target
  double grad_norm = 0;                  // before clipping
  double learning_rate = 0;
  double tokens_per_s = 0;               // of the whole run
  double model_tflops = 0;               // of the whole run
  double predicted_step_s = 0;           // 0: no prediction
  double measured_step_s = 0;            // of the slowest rank
  double peak_memory_bytes = 0;          // of the fullest rank
  double aux_loss = 0;                   // without coefficient
  double z_loss = 0;
  double expert_load_max_over_mean = 0;  // of the worst layer; 0: a dense model
  std::int64_t tokens_seen = 0;
  std::optional<double> eval_loss;       // where this step was evaluated
  std::optional<double> bigram_loss;     // of the same sequences, beside eval_loss
};

void to_json(nlohmann::json& j, const StepMetrics& metrics);

}  // namespace trireme::train
