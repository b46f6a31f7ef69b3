#include "trireme/layout_plan.h"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "trireme/layout_report.h"
#include "trireme/published_figures.h"

namespace trireme::apps {

void show_progress(const search::Progress& p) {
  if (p.seconds < 2) return;
  std::fputs(
      fmt::format("searching: {:.0f} s, {} bounds, {} layouts estimated, best step {}\n", p.seconds, p.bounds,
                  p.estimates, p.best_step_s > 0 ? fmt::format("{:.3f} s", p.best_step_s) : std::string("none yet"))
          .c_str(),
      stderr);
}

namespace {

void plan_question(const LayoutPlanOptions& o, const ChosenQuestion& chosen) {
  for (const std::string& file : {o.csv, o.trace, o.html})
    if (!file.empty()) check_writable(file);
  const search::SearchResult result = search::search_layouts(
      chosen.question, {.top = o.top, .threads = o.threads, .keep_all = !o.csv.empty(), .progress = show_progress});
  LayoutAnswer answer = make_answer(chosen, result);
  if (o.pareto)
    answer.fronts = search::pareto_fronts(chosen.question, result, {.threads = o.threads, .progress = show_progress});
  if (!o.csv.empty()) write_file_atomically(o.csv, answer_csv(result));
  if (!o.trace.empty()) write_file_atomically(o.trace, answer_trace(answer));
  if (!o.html.empty()) write_file_atomically(o.html, answer_html(answer));
  std::fputs((o.json ? answer_json(answer, o.explain).dump(1) + "\n" : answer_text(answer, o.explain)).c_str(), stdout);
}

}  // namespace

void plan_published(const LayoutPlanOptions& o, const plan::RunSpec& run, const Context& context) {
  ChosenQuestion chosen = choose_published(run, o.question.stack, context);
  if (!o.question.platform.empty() || o.question.devices > 0)
    throw ConfigError(
        {.file = run.file, .key = "--platform, --devices", .allowed = "the file of a published run says both"});
  plan_question(o, chosen);
}

void plan_layout(const LayoutPlanOptions& o, const Context& context) {
  const auto need = [](bool given, const char* option, const char* what) {
    if (!given) throw ConfigError({.key = option, .value = "", .allowed = what});
  };
  need(!o.question.platform.empty(), "--platform", "is missing: the machine, a file or a name such as dgx_h100");
  need(o.question.devices > 0, "--devices", "is missing: the number of devices");
  plan_question(o, choose_question(o.question, context));
}

}  // namespace trireme::apps
