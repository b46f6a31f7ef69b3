#include "train/metrics/step_metrics.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace trireme::train {
namespace {

// Calls visit(name, field) for every field, in the order of the file.
template <class Metrics, class Visit>
void for_each_field(Metrics& m, Visit&& visit) {
  visit("step", m.step);
  visit("loss", m.loss);
  visit("aux_loss", m.aux_loss);
  visit("z_loss", m.z_loss);
  visit("grad_norm", m.grad_norm);
  visit("learning_rate", m.learning_rate);
  visit("tokens_seen", m.tokens_seen);
  visit("tokens_per_s", m.tokens_per_s);
  visit("model_tflops", m.model_tflops);
  visit("predicted_step_s", m.predicted_step_s);
  visit("measured_step_s", m.measured_step_s);
  visit("peak_memory_bytes", m.peak_memory_bytes);
  visit("predicted_peak_memory_bytes", m.predicted_peak_memory_bytes);
  visit("expert_load_max_over_mean", m.expert_load_max_over_mean);
}

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}
nlohmann::ordered_json number(std::int64_t value) {
  return value;
}

template <class Value>
void write_by_name(nlohmann::ordered_json& out, const char* key, const std::map<std::string, Value>& values) {
  for (const auto& [name, value] : values) out[key][name] = number(value);
}

template <class Value>
void read_by_name(const nlohmann::json& json, const char* key, std::map<std::string, Value>& values) {
  if (!json.contains(key) || !json[key].is_object()) return;
  for (const auto& [name, value] : json[key].items())
    values[name] = value.is_null() ? std::numeric_limits<Value>::quiet_NaN() : value.template get<Value>();
}

}  // namespace

nlohmann::ordered_json to_json(const StepMetrics& metrics) {
  nlohmann::ordered_json out;
  for_each_field(metrics, [&](const char* name, const auto& value) { out[name] = number(value); });
  if (metrics.eval_loss) out["eval_loss"] = number(*metrics.eval_loss);
  if (metrics.bigram_loss) out["bigram_loss"] = number(*metrics.bigram_loss);
  write_by_name(out, "tokens_by_set", metrics.tokens_by_set);
  write_by_name(out, "eval_loss_by_set", metrics.eval_loss_by_set);
  if (metrics.router_load) out["router_load"] = to_json(*metrics.router_load);
  return out;
}

StepMetrics step_metrics_from_json(const nlohmann::json& json) {
  StepMetrics metrics;
  const auto read = [&](const char* name, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if (!json.contains(name)) return;
    if (json[name].is_null()) {
      value = std::numeric_limits<Value>::quiet_NaN();
    } else {
      value = json[name].get<Value>();
    }
  };
  for_each_field(metrics, read);
  if (json.contains("eval_loss")) read("eval_loss", metrics.eval_loss.emplace());
  if (json.contains("bigram_loss")) read("bigram_loss", metrics.bigram_loss.emplace());
  read_by_name(json, "tokens_by_set", metrics.tokens_by_set);
  read_by_name(json, "eval_loss_by_set", metrics.eval_loss_by_set);
  if (json.contains("router_load")) metrics.router_load = router_load_from_json(json["router_load"]);
  return metrics;
}

}  // namespace trireme::train
