#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

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
  std::string out =
      "feasible,step_s,tokens_per_s_per_device,peak_memory_bytes,pp,virtual_stages,tp,cp,ep,etp,dp,micro_batch,"
      "schedule,"
      "stage_layers,sharding,shard_degree,expert_shard_degree,recompute,recompute_layers,swap,all_to_all,overlap_"
      "experts,reasons\n";
  for (const search::Estimate& e : result.estimated) {
    const plan::LayoutSpec& l = e.setting.layout;
    std::string reasons = fmt::format("{}", fmt::join(e.reasons, "; "));
    out += fmt::format("{},{},{},{:.0f},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},\"{}\"\n",
                       e.feasible ? "yes" : "no", e.feasible ? fmt::format("{:.6f}", e.time.step_s) : "",
                       e.feasible ? fmt::format("{:.4f}", e.time.tokens_per_s_per_device) : "", e.needed_bytes, l.pp,
                       l.virtual_stages, l.tp, l.cp, l.ep, l.etp, l.dp, e.setting.batch.micro_batch, l.schedule,
                       fmt::join(l.stage_layers, " "), plan::name_of(l.sharding), l.shard_degree, l.expert_shard_degree,
                       fmt::join(plan::names_of(l.recompute), "+"), l.recompute_layers,
                       fmt::join(plan::names_of(l.swap), "+"), l.all_to_all, l.overlap.experts ? "yes" : "no", reasons);
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
                            .measured = {}});
}

}  // namespace trireme::apps
