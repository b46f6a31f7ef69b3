// Watches for routers that send everything to one expert. An expert's load is at its maximum where it gets nearly every
// token of the step (99 of 100): E / k times the mean, for E experts of which a token takes k. A layer whose busiest expert
// is there in `steps` steps in a row is told of once; when its load comes down, the count begins anew.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "model/model_spec.h"

namespace trireme::train {

class ExpertCollapse {
 public:
  // steps 0: never.
  ExpertCollapse(std::int64_t steps, const model::ModelSpec& model);

  // A sentence for each layer that has collapsed with this step. Both by MoE layer, as StepSums has them.
  std::vector<std::string> watch(const std::vector<double>& load_ratio, const std::vector<int>& busiest_expert);

  nlohmann::json state() const;  // steps in a row, by MoE layer
  // ConfigError with the file and `key`.
  void restore(const nlohmann::json& state, const std::string& file, const std::string& key);

 private:
  std::int64_t steps_;
  int first_layer_;
  double highest_;  // load over the mean; 0: every expert gets every token
  std::vector<std::int64_t> in_a_row_;
};

}  // namespace trireme::train
