// How a step's rows were spread over the experts, for every MoE layer of the model.
#pragma once
#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "comm/group.h"
#include "model/model_spec.h"
#include "parallel/step.h"

namespace trireme::train {

// All by MoE layer, from `first_layer` of the model on. The ratios are rounded to four digits behind the point.
struct RouterLoad {
  int first_layer = 0;
  std::vector<double> max_over_mean;  // rows of the busiest expert over the mean; E / k: it gets every token
  std::vector<double> min_over_mean;  // of the idlest; 0: some expert got nothing
  std::vector<double> cv;             // standard deviation over the mean
  std::vector<std::vector<std::int64_t>> rows;  // of each expert; empty where the step's are not written down
  bool operator==(const RouterLoad&) const = default;
};

RouterLoad router_load(int first_layer, std::vector<std::vector<std::int64_t>> rows);

// Rows of all layers, on every rank: collective over the world. `sums` has those of the rank's own stage, over all data
// ranks; `contributes` says whether this rank speaks for its stage.
std::vector<std::vector<std::int64_t>> gather_router_rows(const parallel::StepSums& sums, const model::ModelSpec& model,
                                                          comm::Group& world, bool contributes);

// Rows are written down every so many steps, so that a logged step has 1,024 numbers of them at most on average.
std::int64_t steps_between_rows(const model::ModelSpec& model, std::int64_t log_every);

nlohmann::ordered_json to_json(const RouterLoad& load);
RouterLoad router_load_from_json(const nlohmann::json& json);

}  // namespace trireme::train
