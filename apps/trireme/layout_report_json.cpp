#include "model/parameters.h"

#include <nlohmann/json.hpp>
#include "trireme/layout_rates.h"
#include "trireme/layout_report.h"

namespace trireme::apps {

namespace {

using nlohmann::json;

// A timeline of more slots is left out: nobody reads it, and a trace is the better place.
constexpr std::size_t most_slots_listed = 100'000;

json speed_json(const LayoutAnswer& a, const search::Estimate& e) {
  return {{"step_s", e.time.step_s},
          {"tokens_per_s", e.tokens_per_s()},
          {"tokens_per_s_per_device", e.time.tokens_per_s_per_device},
          {"model_tflops_per_device", e.time.tokens_per_s_per_device * a.flops_per_token / 1e12},
          {"mfu", a.mfu(e)},
          {"peak_memory_bytes", e.needed_bytes},
          {"headroom_bytes", e.headroom_bytes},
          {"simulated", e.simulated}};
}

json short_json(const LayoutAnswer& a, const search::Estimate& e) {
  json j = speed_json(a, e);
  j["devices"] = e.setting.num_devices;
  j["layout"] = layout_json(e.setting);
  return j;
}

json list_json(const LayoutAnswer& a, const std::vector<search::Estimate>& list, std::size_t from = 0) {
  json out = json::array();
  for (std::size_t i = from; i < list.size(); ++i) out.push_back(short_json(a, list[i]));
  return out;
}

json timeline_json(const LayoutAnswer& a) {
  std::size_t slots = 0;
  for (const auto& row : a.schedule.rows) slots += row.size();
  if (slots > most_slots_listed) return json::array();
  json out = json::array();
  for (std::size_t s = 0; s < a.spans.size(); ++s) {
    json spans = json::array();
    for (std::size_t i = 0; i < a.spans[s].size(); ++i)
      spans.push_back({{"slot", plan::to_text(a.schedule.rows[s][i])},
                       {"start_s", a.spans[s][i].start_s},
                       {"end_s", a.spans[s][i].end_s}});
    out.push_back({{"stage", s}, {"spans", spans}});
  }
  return out;
}

json memory_json(const LayoutAnswer& a) {
  json j = a.memory;
  for (json& stage : j["stages"]) stage.erase("slots");
  return j["stages"];
}

}  // namespace

json answer_json(const LayoutAnswer& a, bool explain) {
  const search::Question& q = a.chosen.question;
  const sim::Setting& base = q.base;
  const auto counts = model::count_parameters(base.model);
  json j = {{"model",
             {{"name", base.model.name},
              {"params_total", counts.total},
              {"params_active", counts.active},
              {"flops_per_token", a.flops_per_token},
              {"flops_convention", model::to_text(a.convention, base.model)}}},
            {"devices", base.num_devices},
            {"batch", {{"global_batch", base.batch.global_batch}, {"sequence_length", base.batch.sequence_length}}},
            {"precision", model::name_of(base.precision.compute)},
            {"platform",
             {{"name", q.target.platform},
              {"device", q.target.device},
              {"memory_bytes", q.target.capacity_bytes},
              {"peak_flops_per_s", q.target.peak_flops_per_s}}},
            {"stack",
             {{"profile", q.target.profile},
              {"name", q.target.stack},
              {"device_calibrated", q.target.device_known},
              {"stack_calibrated", q.target.stack_known},
              {"kernels", q.target.kernels.name}}},
            {"assumptions", a.chosen.assumptions},
            {"feasible", a.feasible()},
            {"reasons", a.feasible() ? std::vector<std::string>{} : a.result.reasons},
            {"search",
             {{"layouts", a.result.layouts},
              {"cells", a.result.cells},
              {"bounds", a.result.bounds},
              {"estimates", a.result.estimates},
              {"seconds", a.result.seconds}}},
            {"runners_up", list_json(a, a.result.best, 1)}};
  if (a.layout) {
    j.update(speed_json(a, *a.layout));
    const sim::StepTime& t = a.layout->time;
    j["layout"] = layout_json(a.layout->setting);
    j["unrunnable"] = json::array();
    for (const plan::RefusedKey& r : a.refused) j["unrunnable"].push_back(r.key);
    j["time"] = {{"pipeline_s", t.pipeline_s},
                 {"reduce_s", t.reduce_s},
                 {"gather_s", t.gather_s},
                 {"optimizer_s", t.optimizer_s},
                 {"swap_delay_s", a.layout->time.swap_s},
                 {"bubble_fraction", t.bubble},
                 {"slowest_stage", t.slowest_stage}};
    j["memory"] = memory_json(a);
    j["cold_start_memory_bytes"] = a.memory.cold_start_needed_bytes;
    j["timeline"] = timeline_json(a);
    if (explain) {
      j["explain"] = a.terms;
      for (const Rate& r : rates_of(q.target))
        j["rates"].push_back({{"what", r.what}, {"value", r.value}, {"unit", r.unit}, {"source", r.source}});
    }
  } else {
    for (const char* key : {"step_s", "tokens_per_s", "tokens_per_s_per_device", "model_tflops_per_device", "mfu",
                            "peak_memory_bytes", "headroom_bytes", "layout"})
      j[key] = nullptr;
    for (const char* key : {"unrunnable", "memory", "timeline"}) j[key] = json::array();
  }
  if (a.fronts)
    j["pareto"] = {{"headroom", list_json(a, a.fronts->headroom)}, {"devices", list_json(a, a.fronts->devices)}};
  return j;
}

}  // namespace trireme::apps
