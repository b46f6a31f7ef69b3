#include "trireme/planned_run.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "report/html_page.h"
#include "report/plan_report.h"
#include "report/text_table.h"
#include "report/trace.h"

namespace trireme::apps {

namespace {

report::PlanView view_of(const RunPlan& p, const platform::PlatformSpec& platform) {
  return {p.run, p.plan, p.predicted.priced.costs, p.predicted.prediction, platform};
}

std::string terms_text(const sim::Priced& priced) {
  report::TextTable table({"price", "value", "from"}, /*last_left=*/true);
  for (const sim::Term& t : priced.terms) table.add({t.what, report::show_seconds(t.seconds), t.formula.empty() ? t.source : fmt::format("{}; {}", t.source, t.formula)});
  std::string out = "\nWhat each action's price consists of\n" + table.text();
  if (priced.threads > 0) out += fmt::format("  {} threads a rank\n", priced.threads);
  return out;
}

}  // namespace

std::string run_text(const RunPlan& p, const platform::PlatformSpec& platform, const PlanOutput& o) {
  std::string out = report::plan_text(view_of(p, platform));
  for (const std::string& line : p.assumptions) out += fmt::format("assumed: {}\n", line);
  for (const std::string& note : p.predicted.priced.notes) out += fmt::format("note: {}\n", note);
  if (o.explain) out += terms_text(p.predicted.priced);
  if (o.actions) out += "\n" + to_text(p.plan);
  return out;
}

nlohmann::json run_json(const RunPlan& p, const platform::PlatformSpec& platform, const PlanOutput& o) {
  nlohmann::json j = report::plan_json(view_of(p, platform));
  if (p.predicted.priced.threads > 0) j["threads"] = p.predicted.priced.threads;
  if (!p.stack.empty()) j["stack"] = p.stack;
  j["assumptions"] = p.assumptions;
  if (o.explain) j["explain"] = p.predicted.priced.terms;
  j["notes"] = p.predicted.priced.notes;
  return j;
}

void write_run_pages(const RunPlan& p, const platform::PlatformSpec& platform, const PlanOutput& o) {
  const plan::Prediction& prediction = p.predicted.prediction;
  if (!o.trace.empty()) write_file_atomically(o.trace, report::trace_json(p.plan, {{"predicted", prediction.ranks}}));
  if (!o.html.empty())
    write_file_atomically(o.html, report::html_page({.title = p.run.name,
                                                     .text = report::plan_text(view_of(p, platform)),
                                                     .plan = p.plan,
                                                     .predicted = prediction,
                                                     .measured = {},
                                                     .facts = report::plan_facts(&p.run.model, p.plan, prediction, report::now_text())}));
}

}  // namespace trireme::apps
