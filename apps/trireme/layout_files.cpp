#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "plan/layout_keys.h"
#include "plan/plan.h"
#include "report/html_page.h"
#include "report/trace.h"
#include "trireme/layout_report.h"

namespace trireme::apps {

namespace {

// The layout's plan with what was simulated of it: one rank a stage, which stands for all.
plan::Prediction prediction_of(const LayoutAnswer& a) {
  const sim::SimulatedLayout& layout = *a.simulated;
  plan::Prediction p{.step_s = layout.result.step_s, .tokens_per_s = a.layout->tokens_per_s(),
                     .platform = a.chosen.question.target.platform, .ranks = sim::timelines(layout.plan, layout.result),
                     .memory = layout.result.memory};
  for (std::size_t s = 0; s < p.memory.size(); ++s) {
    const sim::StageMemory& memory = a.memory.stages[s];
    p.ranks[s].peak_memory_bytes = memory.needed_bytes;
    p.memory[s].at_peak.clear();
    for (const sim::MemoryItem& item : memory.items)
      if (item.place == sim::MemoryPlace::device)
        p.memory[s].at_peak.push_back({item.group + ": " + item.name, item.bytes});
    p.constant.emplace_back();
  }
  return p;
}

}  // namespace

std::string answer_csv(const search::SearchResult& result) {
  std::string out = "feasible,step_s,tokens_per_s_per_device,peak_memory_bytes,micro_batch";
  for (const plan::LayoutKey& key : plan::layout_keys()) out += "," + key.name;
  out += ",reasons\n";
  for (const search::Estimate& e : result.estimated) {
    out += fmt::format("{},{},{},{:.0f},{}", e.feasible ? "yes" : "no",
                       e.feasible ? fmt::format("{:.6f}", e.time.step_s) : "",
                       e.feasible ? fmt::format("{:.4f}", e.time.tokens_per_s_per_device) : "", e.needed_bytes,
                       e.setting.batch.micro_batch);
    for (const plan::LayoutKey& key : plan::layout_keys()) out += "," + plan::cell_text(key.value(e.setting.layout));
    out += fmt::format(",\"{}\"\n", fmt::join(e.reasons, "; "));
  }
  return out;
}

std::string answer_trace(const LayoutAnswer& a) {
  if (!a.simulated) return "{\"traceEvents\": []}\n";
  return report::trace_json(a.simulated->plan, {{"predicted", prediction_of(a).ranks}});
}

std::string answer_html(const LayoutAnswer& a) {
  const std::string title = fmt::format("{} on {} x {}", a.chosen.question.base.model.name,
                                        a.chosen.question.base.num_devices, a.chosen.question.target.platform);
  if (!a.simulated)
    return report::html_page(
        {.title = title, .text = answer_text(a, true), .plan = {}, .predicted = {}, .measured = {}});
  return report::html_page({.title = title,
                            .text = answer_text(a, true),
                            .plan = a.simulated->plan,
                            .predicted = prediction_of(a),
                            .measured = {},
                            .facts = report::plan_facts(&a.chosen.question.base.model, a.simulated->plan, prediction_of(a),
                                                        report::now_text())});
}

}  // namespace trireme::apps
