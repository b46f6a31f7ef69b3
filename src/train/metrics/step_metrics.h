// What a step reports: one value for the console, metrics.jsonl and TensorBoard. Field names are the JSON names.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "train/metrics/router_load.h"

namespace trireme::train {

struct StepMetrics {
  std::int64_t step = 0;  // from 1
  double loss = 0;        // mean cross-entropy a valid token, nats
  double aux_loss = 0;    // load-balance loss, mean over MoE layers, without its coefficient
  double z_loss = 0;      // the same of the router's z-loss
  double grad_norm = 0;   // global, before clipping
  double learning_rate = 0;
  std::int64_t tokens_seen = 0;            // since the run began
  double tokens_per_s = 0;                 // of the whole world
  double model_tflops = 0;                 // model FLOPs (no recomputation) a second, of the whole world, 1e12
  double predicted_step_s = 0;             // 0: no prediction
  double measured_step_s = 0;              // the slowest rank's
  double peak_memory_bytes = 0;            // the highest of the ranks
  double predicted_peak_memory_bytes = 0;  // 0: no prediction
  double expert_load_max_over_mean = 0;    // worst MoE layer: rows of the busiest expert over the mean; 0: no experts
  std::optional<double> eval_loss;         // on the steps that evaluate
  std::optional<double> bigram_loss;       // beside it: what a bigram model of the same text reaches
  std::map<std::string, std::int64_t> tokens_by_set;    // tokens_seen by data set
  std::map<std::string, double> eval_loss_by_set;       // beside eval_loss; one that has no target is not a number
  std::optional<RouterLoad> router_load;   // none: no experts
};

// One flat object; values that are not finite become null (JSON has none). The optional ones are absent where there are
// none.
nlohmann::ordered_json to_json(const StepMetrics& metrics);
StepMetrics step_metrics_from_json(const nlohmann::json& json);

}  // namespace trireme::train
