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

plan::ActionKind kind_of(plan::SlotKind kind) {
  switch (kind) {
    case plan::SlotKind::forward:
      return plan::ActionKind::forward;
    case plan::SlotKind::input_gradient:
      return plan::ActionKind::input_gradient;
    case plan::SlotKind::weight_gradient:
      return plan::ActionKind::weight_gradient;
    default:
      return plan::ActionKind::backward;
  }
}

// The schedule as a plan of one rank a stage whose actions are the slots, which is what pages and traces draw.
struct Drawn {
  plan::Plan plan;
  plan::Prediction prediction;
};

Drawn draw(const LayoutAnswer& a) {
  Drawn d;
  const int pp = a.layout->setting.layout.pp;
  d.plan.mesh = {.pp = pp, .dp = 1, .ep = 1};
  d.plan.schedule = a.schedule;
  d.plan.num_micro_batches = a.schedule.num_micro_batches;
  d.prediction.step_s = a.layout->time.step_s;
  d.prediction.tokens_per_s = a.layout->tokens_per_s();
  d.prediction.platform = a.chosen.question.target.platform;
  for (int s = 0; s < pp; ++s) {
    plan::StagePlan& stage = d.plan.stages.emplace_back();
    plan::RankTimeline& rank = d.prediction.ranks.emplace_back();
    plan::MemoryCurve& curve = d.prediction.memory.emplace_back();
    const sim::StageMemory& memory = a.memory.stages[s];
    rank.rank = s, rank.step_s = a.layout->time.step_s, rank.peak_memory_bytes = memory.needed_bytes;
    const auto& row = a.schedule.rows[s];
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i < memory.slots.size()) {
        curve.points.push_back({a.spans[s][i].start_s, memory.slots[i].peak_bytes});
        curve.points.push_back({a.spans[s][i].end_s, memory.slots[i].after_bytes});
      }
      if (row[i].kind == plan::SlotKind::no_op) continue;
      plan::Action action;
      action.id = static_cast<int>(stage.actions.size()), action.kind = kind_of(row[i].kind), action.mb = row[i].mb,
      action.chunk = row[i].chunk;
      action.pass = row[i].kind == plan::SlotKind::forward ? plan::Pass::forward : plan::Pass::backward;
      stage.actions.push_back(action);
      rank.spans.push_back(a.spans[s][i]);
    }
    for (const sim::MemoryItem& item : memory.items)
      if (item.place == sim::MemoryPlace::device) curve.at_peak.push_back({item.group + ": " + item.name, item.bytes});
    d.prediction.constant.emplace_back();
  }
  return d;
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
  if (!a.layout) return "{\"traceEvents\": []}\n";
  const Drawn d = draw(a);
  return report::trace_json(d.plan, {{"predicted", d.prediction.ranks}});
}

std::string answer_html(const LayoutAnswer& a) {
  const std::string title = fmt::format("{} on {} x {}", a.chosen.question.base.model.name,
                                        a.chosen.question.base.num_devices, a.chosen.question.target.platform);
  if (!a.layout)
    return report::html_page(
        {.title = title, .text = answer_text(a, true), .plan = {}, .predicted = {}, .measured = {}});
  const Drawn d = draw(a);
  return report::html_page(
      {.title = title, .text = answer_text(a, true), .plan = d.plan, .predicted = d.prediction, .measured = {}});
}

}  // namespace trireme::apps
