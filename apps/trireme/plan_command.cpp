#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/log.h"
#include "model/untrainable.h"
#include "plan/layout_keys.h"
#include "plan/plan.h"
#include "plan/run_spec.h"
#include "report/html_page.h"
#include "report/plan_report.h"
#include "report/text_table.h"
#include "report/trace.h"
#include "trireme/commands.h"
#include "trireme/layout_plan.h"
#include "trireme/platform_choice.h"
#include "trireme/positive_number.h"
#include "trireme/run_plan.h"

namespace trireme::apps {

namespace {

struct Options {
  std::string run, platform, html, trace;
  std::vector<std::string> set, rest;
  LayoutPlanOptions layout;
  int ranks = 0;
  bool json = false, explain = false, actions = false;
};

int number_of_ranks(const plan::RunSpec& run) {
  const std::int64_t ranks = std::int64_t{run.layout.pp} * (run.layout.dp > 0 ? run.layout.dp : run.layout.ep);
  if (run.layout.dp == 0)
    spdlog::info("neither --ranks nor layout.dp is given: planning for pp x ep = {} ranks", ranks);
  return static_cast<int>(std::min<std::int64_t>(ranks, INT32_MAX));
}

void print_terms(const sim::Priced& priced) {
  report::TextTable table({"price", "value", "from"}, /*last_left=*/true);
  for (const sim::Term& t : priced.terms) table.add({t.what, report::show_seconds(t.seconds), t.source});
  std::fputs(("\nWhat each action's price consists of\n" + table.text()).c_str(), stdout);
  std::fputs(fmt::format("  {} threads a rank\n", priced.threads).c_str(), stdout);
}

void plan_command(const plan::RunSpec& asked, const Options& o) {
  model::refuse_untrainable(asked.model, asked.file);  // what is priced here is what `trireme train` would execute
  const plan::Mesh mesh = plan::resolve_mesh(asked, o.ranks > 0 ? o.ranks : number_of_ranks(asked));
  const platform::PlatformSpec platform = choose_platform(o.platform, asked);
  const RunPlan planned = make_run_plan(asked, mesh, platform);
  const plan::RunSpec& run = planned.run;
  const plan::Plan& plan = planned.plan;
  const sim::Predicted& predicted = planned.predicted;
  const report::PlanView view{run, plan, predicted.priced.costs, predicted.prediction, platform};

  if (o.json) {
    nlohmann::json j = report::plan_json(view);
    j["threads"] = predicted.priced.threads;
    if (o.explain) j["explain"] = predicted.priced.terms;
    j["notes"] = predicted.priced.notes;
    std::fputs((j.dump(1) + "\n").c_str(), stdout);
  } else {
    std::fputs(report::plan_text(view).c_str(), stdout);
    for (const std::string& note : predicted.priced.notes) std::fputs(fmt::format("note: {}\n", note).c_str(), stdout);
    if (o.explain) print_terms(predicted.priced);
    if (o.actions) std::fputs(("\n" + to_text(plan)).c_str(), stdout);
  }
  if (!o.trace.empty()) write_file_atomically(o.trace, report::trace_json(plan, {{"predicted", predicted.prediction.ranks}}));
  if (!o.html.empty())
    write_file_atomically(o.html, report::html_page({.title = run.name, .text = report::plan_text(view), .plan = plan,
                                                     .predicted = predicted.prediction}));
}

}  // namespace

void add_plan_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  LayoutPlanOptions& layout = options->layout;
  CLI::App* command = app.add_subcommand(
      "plan", "Print a run's layout, schedule, memory and predicted speed (RUN), or find the best layout of a model on a machine "
              "(--model, --platform, --devices); runs nothing.");
  command->add_option("RUN", options->rest, "TOML file of the run; or further KEY=VALUE of --set");
  command->add_option("--model", layout.question.model, "a name (deepseek_v3), a TOML file or a Hugging Face config.json");
  add_question_options(*command, layout.question);
  command->add_option("--set", options->set, "KEY=VALUE...: override a key of the run, or fix one of the layout; repeatable")
      ->allow_extra_args(false);
  command->add_option("--ranks", options->ranks, "RUN: number of ranks (default: layout.pp x layout.dp)")->check(positive_number());
  command->add_option("--top", layout.top, "layouts to print")->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_option("--threads", layout.threads, "of the search (default: all cores)")->check(CLI::Range(1, 1024));
  command->add_flag("--pareto", layout.pareto, "also search less memory, and other numbers of devices");
  command->add_option("--csv", layout.csv, "write every layout that was estimated in full");
  command->add_flag("--json", options->json, "print one JSON object");
  command->add_flag("--explain", options->explain, "also print every price with what it consists of");
  command->add_flag("--actions", options->actions, "RUN: also print every action of every stage");
  command->add_option("--html", options->html, "write a self-contained page with the timeline");
  command->add_option("--trace", options->trace, "write a Chrome/Perfetto trace");
  command->footer([] { return plan::layout_key_help(); });
  command->callback([options, &context] {
    Options& o = *options;
    for (const std::string& word : o.rest) {
      if (word.find('=') != std::string::npos) o.set.push_back(word);
      else if (o.run.empty()) o.run = word;
      else throw ConfigError({.key = "RUN", .value = word, .allowed = "one run only"});
    }
    if (o.run.empty() == o.layout.question.model.empty())
      throw ConfigError({.key = "plan", .value = o.run, .allowed = "either a run's file, or --model with --platform and --devices"});
    LayoutPlanOptions& l = o.layout;
    l.question.set = o.set, l.html = o.html, l.trace = o.trace, l.json = o.json, l.explain = o.explain;
    if (!o.run.empty()) {
      const plan::RunSpec run = plan::load_run(o.run, o.set);
      if (run.published) return plan_published(l, run, context);
      o.platform = o.layout.question.platform;
      return plan_command(run, o);
    }
    plan_layout(l, context);
  });
}

}  // namespace trireme::apps
