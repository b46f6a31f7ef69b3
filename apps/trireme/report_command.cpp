#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/json_text.h"
#include "report/html_page.h"
#include "report/run_report.h"
#include "report/trace.h"
#include "sim/price.h"
#include "trireme/commands.h"
#include "trireme/named_outputs.h"
#include "trireme/platform_choice.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder, html, trace;
  bool json = false;
};

// Whether the plan is of before the shared expert was a segment: `experts` computed it, and no price of today is of that.
bool is_of_before(const plan::Plan& plan, const model::ModelSpec& model) {
  if (model.moe.shared_ffn == 0 || model.num_moe_layers() == 0) return false;
  for (const plan::StagePlan& stage : plan.stages)
    for (const plan::Action& a : stage.actions)
      if (a.segment == model::Segment::shared) return false;
  return true;
}

// Whether run.toml plans what plan.json says: a price of one for the other would be of neither.
bool is_plan_of(const plan::Plan& plan, plan::RunSpec run) {
  run.layout.all_to_all = plan.all_to_all;
  plan::Mesh mesh = plan::resolve_mesh(run, plan.mesh.world());
  mesh.ranks_of_host = plan.mesh.ranks_of_host, mesh.hosts_per_group = plan.mesh.hosts_per_group;
  return plan::make_training_plan(run, mesh) == plan;
}

// The run's prediction with the rows that its routers sent. 0 where that can't be told: an older run, a run without
// experts, a platform file that has changed its name since.
double repriced_step(const fs::path& folder, const report::RunReport& r) {
  const bool counted = std::any_of(r.measured.begin(), r.measured.end(), [](const auto& m) { return !m.expert_rows.empty(); });
  if (!counted || !fs::exists(folder / "run.toml")) return 0;
  const plan::RunSpec run = plan::load_run(folder / "run.toml");
  const platform::PlatformSpec platform = choose_platform({}, run);
  if (platform.name != r.prediction.platform || is_of_before(r.plan, run.model) || !is_plan_of(r.plan, run)) return 0;
  return sim::predict(r.plan, run, platform, r.measured).prediction.step_s;
}

void report_command(const Options& o) {
  const fs::path folder = o.folder;
  const fs::path html = o.html.empty() ? folder / "report.html" : fs::path(o.html);
  const fs::path trace = o.trace.empty() ? folder / "trace.json" : fs::path(o.trace);
  report::RunReport r = report::make_run_report(folder);
  check_outputs({page_output("--html", html), trace_output("--trace", trace)}, {});
  r.repriced_step_s = repriced_step(folder, r);
  const std::string text = report::run_text(r);
  const auto measured = r.measured_timelines();
  std::vector<report::TraceGroup> groups = {{"predicted", r.prediction.ranks}};
  if (!measured.empty()) groups.push_back({"measured", measured});
  // Both or none.
  AtomicFile page(html), events(trace);
  page.write(report::html_page({.title = fs::weakly_canonical(folder).filename().string(), .text = text, .plan = r.plan,
                                .predicted = r.prediction, .measured = measured, .report = &r, .facts = r.facts}));
  events.write(report::trace_json(r.plan, groups));
  page.sync();
  events.sync();
  page.commit();
  events.commit();
  if (o.json) {
    write_output(json_text(report::run_json(r), 1) + "\n");
  } else {
    write_output(text);
    print_output("\nPage: {}\nTrace (ui.perfetto.dev): {}\n", html.string(), trace.string());
  }
}

}  // namespace

void add_report_command(CLI::App& app, Context&) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "Compare a run's measurements with its prediction.");
  command->add_option("RUN_DIR", options->folder, "folder of the run")->required();
  command->add_flag("--json", options->json, "print one JSON object");
  command->add_option("--html", options->html, "where to write the page (default: RUN_DIR/report.html)");
  command->add_option("--trace", options->trace, "where to write the Chrome/Perfetto trace (default: RUN_DIR/trace.json)");
  command->callback([options] { report_command(*options); });
}

}  // namespace trireme::apps
