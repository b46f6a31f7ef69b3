#include "trireme/layout_plan.h"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/json_text.h"
#include "trireme/found_run.h"
#include "trireme/layout_report.h"
#include "trireme/published_figures.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

void show_progress(const search::Progress& p) {
  if (p.seconds < 2) return;
  std::fputs(
      fmt::format("searching: {:.0f} s, {} bounds, {} layouts estimated, best step {}\n", p.seconds, p.bounds,
                  p.estimates, p.best_step_s > 0 ? fmt::format("{:.3f} s", p.best_step_s) : std::string("none yet"))
          .c_str(),
      stderr);
}

void plan_question(const LayoutPlanOptions& o, const ChosenQuestion& chosen) {
  const search::SearchResult result = search::search_layouts(
      chosen.question, {.top = o.top, .threads = o.threads, .keep_all = !o.csv.empty(), .progress = show_progress});
  LayoutAnswer answer = make_answer(chosen, result);
  if (o.pareto)
    answer.fronts = search::pareto_fronts(chosen.question, result, {.threads = o.threads, .progress = show_progress});
  if (!o.csv.empty()) write_file_atomically(o.csv, answer_csv(result));
  if (!o.trace.empty()) write_file_atomically(o.trace, answer_trace(answer));
  if (!o.html.empty()) write_file_atomically(o.html, answer_html(answer));
  write_output(o.json ? json_text(answer_json(answer, o.explain), 1) + "\n" : answer_text(answer, o.explain));
  if (o.out.empty()) return;
  if (!answer.feasible())
    throw ConfigError({.key = "--out", .value = o.out, .allowed = "no layout fits: there is none to write"});
  const sim::Setting& s = answer.layout->setting;
  std::vector<std::string> about = {
      fmt::format("Written by trireme plan for {} devices of {}: {}.", s.num_devices, chosen.question.target.platform,
                  layout_line(s)),
      fmt::format("Estimated: a step of {:.4g} s, {:.1f} GB on a device.", answer.layout->time.step_s,
                  answer.layout->needed_bytes / 1e9)};
  if (!answer.refused.empty()) about.push_back("trireme train can't run it: " + refused_text(answer.refused) + ".");
  write_run(o.out, o.as_run(s), about);
  if (!o.json) print_output("\nWritten to {}\n", o.out);
}

void plan_published(const LayoutPlanOptions& o, const plan::RunSpec& run, const Context& context) {
  ChosenQuestion chosen = choose_published(run, o.question.stack, context);
  if (!o.question.platform.empty() || o.question.devices > 0)
    throw ConfigError(
        {.file = run.file, .key = "--platform, --devices", .allowed = "the file of a published run says both"});
  plan_question(o, chosen);
}

}  // namespace trireme::apps
