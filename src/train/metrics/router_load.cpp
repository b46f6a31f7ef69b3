#include "train/metrics/router_load.h"

#include <algorithm>
#include <cmath>

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

namespace trireme::train {
namespace {

constexpr std::int64_t numbers_a_line = 1024;

double rounded(double ratio) { return std::round(ratio * 1e4) / 1e4; }

}  // namespace

RouterLoad router_load(int first_layer, std::vector<std::vector<std::int64_t>> rows) {
  RouterLoad out{.first_layer = first_layer};
  for (const std::vector<std::int64_t>& of_layer : rows) {
    double sum = 0, squares = 0;
    for (const std::int64_t n : of_layer) sum += static_cast<double>(n);
    const double mean = of_layer.empty() ? 0 : sum / static_cast<double>(of_layer.size());
    for (const std::int64_t n : of_layer) squares += (static_cast<double>(n) - mean) * (static_cast<double>(n) - mean);
    const auto [least, most] = std::minmax_element(of_layer.begin(), of_layer.end());
    const auto over_mean = [&](double value) { return mean > 0 ? rounded(value / mean) : 0; };
    out.max_over_mean.push_back(over_mean(mean > 0 ? static_cast<double>(*most) : 0));
    out.min_over_mean.push_back(over_mean(mean > 0 ? static_cast<double>(*least) : 0));
    out.cv.push_back(over_mean(of_layer.empty() ? 0 : std::sqrt(squares / static_cast<double>(of_layer.size()))));
  }
  out.rows = std::move(rows);
  return out;
}

std::vector<std::vector<std::int64_t>> gather_router_rows(const parallel::StepSums& sums, const model::ModelSpec& model,
                                                          comm::Group& world, bool contributes) {
  const std::int64_t layers = model.num_moe_layers(), experts = model.moe.num_experts;
  at::Tensor all = at::zeros({layers, experts}, at::kDouble);
  auto values = all.accessor<double, 2>();
  if (contributes)
    for (const auto& [layer, counts] : sums.router_counts)
      for (std::int64_t e = 0; e < experts; ++e)
        values[layer - model.num_dense_layers][e] = counts[static_cast<std::size_t>(e)];
  all = all.to(world.device);
  comm::all_reduce(world, all, comm::ReduceOp::sum, "gather the load of experts");
  all = all.to(at::kCPU, at::kLong).contiguous();
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::int64_t* begin = all.const_data_ptr<std::int64_t>() + i * experts;
    rows.emplace_back(begin, begin + experts);
  }
  return rows;
}

std::int64_t steps_between_rows(const model::ModelSpec& model, std::int64_t log_every) {
  const std::int64_t numbers = std::int64_t{model.num_moe_layers()} * model.moe.num_experts;
  return log_every * std::max<std::int64_t>((numbers + numbers_a_line - 1) / numbers_a_line, 1);
}

nlohmann::ordered_json to_json(const RouterLoad& load) {
  nlohmann::ordered_json out = {{"first_layer", load.first_layer},
                                {"max_over_mean", load.max_over_mean},
                                {"min_over_mean", load.min_over_mean},
                                {"cv", load.cv}};
  if (!load.rows.empty()) out["rows"] = load.rows;
  return out;
}

RouterLoad router_load_from_json(const nlohmann::json& json) {
  RouterLoad out{.first_layer = json.at("first_layer").get<int>(),
                 .max_over_mean = json.at("max_over_mean").get<std::vector<double>>(),
                 .min_over_mean = json.at("min_over_mean").get<std::vector<double>>(),
                 .cv = json.at("cv").get<std::vector<double>>()};
  if (json.contains("rows")) out.rows = json.at("rows").get<std::vector<std::vector<std::int64_t>>>();
  return out;
}

}  // namespace trireme::train
