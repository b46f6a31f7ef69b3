#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_text.h"
#include "base/log.h"
#include "model/untrainable.h"
#include "plan/layout_keys.h"
#include "plan/run_spec.h"
#include "plan/run_warnings.h"
#include "plan/runnable.h"
#include "search/layouts/given_layout.h"
#include "trireme/commands.h"
#include "trireme/found_run.h"
#include "trireme/layout_plan.h"
#include "trireme/named_outputs.h"
#include "trireme/option_rules.h"
#include "trireme/planned_run.h"
#include "trireme/platform_choice.h"
#include "trireme/positive_number.h"
#include "trireme/runnable_plan.h"
#include "trireme/shown_schedule.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

struct Options {
  const CLI::App* command = nullptr;
  std::string run, data, show;
  std::vector<std::string> set, rest;
  LayoutPlanOptions layout;
  int ranks = 0;
  bool actions = false, search = false, runnable = false;
};

// Whether a --set is of what a search is asked, not of the run.
bool belongs_to_question(const std::string& set) {
  const std::string table = set.substr(0, set.find_first_of("=. "));
  const auto asked = {"layout", "load", "execution", "precision", "kernels", "memory_profile"};
  return set.starts_with("batch.micro_batch") || std::find(asked.begin(), asked.end(), table) != asked.end();
}

void refuse_options(std::initializer_list<std::pair<const char*, bool>> given, const std::string& file, const char* allowed) {
  for (const auto& [option, is_given] : given)
    if (is_given) throw ConfigError({.file = file, .key = option, .value = "", .allowed = allowed});
}

PlanOutput output_of(const Options& o) {
  return {.html = o.layout.html,
          .trace = o.layout.trace,
          .json = o.layout.json,
          .explain = o.layout.explain,
          .actions = o.actions};
}

int number_of_ranks(const plan::RunSpec& run) {
  const std::int64_t ranks = std::int64_t{run.layout.pp} * (run.layout.dp > 0 ? run.layout.dp : run.layout.ep);
  if (run.layout.dp == 0)
    spdlog::info("neither --ranks nor layout.dp is given: planning for pp x ep = {} ranks", ranks);
  return static_cast<int>(std::min<std::int64_t>(ranks, INT32_MAX));
}

// All ranks of a layout whose data-parallel degree is known; else with the fewest that its experts need.
int world_of(const plan::LayoutSpec& l) {
  const std::int64_t ranks = std::int64_t{l.pp} * l.tp * l.cp * (l.dp > 0 ? l.dp : std::max(1, l.ep * l.etp / (l.tp * l.cp)));
  return static_cast<int>(std::min<std::int64_t>(ranks, INT32_MAX));
}

// No machine has rates of float64: those of float32 are taken.
DType compute_of(const plan::RunSpec& run) {
  return run.device.dtype == DType::float64 ? DType::float32 : run.device.dtype;
}

// `run`: empty of a model. What a platform or a stack is a name of is no file.
void check_outputs_of(const Options& o, const plan::RunSpec& run) {
  const LayoutPlanOptions& l = o.layout;
  check_outputs({page_output("--html", l.html), trace_output("--trace", l.trace), table_output("--csv", l.csv, "feasible"),
                 run_output("--out", l.out)},
                {{"RUN", o.run}, {"--model", l.question.model}, {"--platform", l.question.platform}, {"--stack", l.question.stack},
                 {"platform", run.platform}, {"model.file", run.model_origin}});
}

// What is said of a machine and a batch where there is no run's file.
void refuse_question(const plan::RunSpec& run, const Options& o) {
  refuse_given(*o.command, {"--devices", "--precision", "--global-batch", "--sequence"},
               "the run's file says that; --ranks and --set change it", run.file);
}

void plan_run(const plan::RunSpec& run, const Options& o, const Context& context) {
  refuse_question(run, o);
  refuse_given(*o.command, {"--memory-GiB", "--top", "--threads"}, "has a meaning only with --search");
  refuse_options({{"--csv", !o.layout.csv.empty()}, {"--pareto", o.layout.pareto}}, "", "has a meaning only with --search");
  model::refuse_untrainable(run.model, run.file);  // what is priced here is what `trireme train` would execute
  for (const std::string& warning : plan::warnings(run)) spdlog::warn("{}", warning);
  for (const plan::RefusedKey& refused : plan::refused_keys(run.layout))
    spdlog::warn("trireme train does not run this yet: {} = {} {}", refused.key, refused.value, refused.wanted);
  const plan::Mesh mesh = plan::resolve_mesh(run, o.ranks > 0 ? o.ranks : number_of_ranks(run), plan::MeshUse::planned);
  const ChosenPlatform chosen = choose_platform(o.layout.question.platform, o.layout.question.stack, run, context);
  const platform::PlatformSpec& platform = chosen.spec;
  RunPlan planned = make_run_plan(run, mesh, platform, {.keep = {}, .software = chosen.software});
  planned.assumptions.insert(planned.assumptions.begin(), chosen.assumptions.begin(), chosen.assumptions.end());
  const PlanOutput output = output_of(o);
  write_output(output.json ? json_text(run_json(planned, platform, output), 1) + "\n" : run_text(planned, platform, output));
  write_run_pages(planned, platform, output);
}

void search_runnable(const Options& o, plan::RunSpec run, const ChosenQuestion& chosen, ChosenPlatform platform) {
  const LayoutPlanOptions& l = o.layout;
  refuse_options({{"--csv", !l.csv.empty()}, {"--pareto", l.pareto}}, "", "not with --runnable, which estimates no layout");
  const sim::Setting& s = chosen.question.base;
  run.layout = s.layout, run.batch = s.batch;
  if (l.question.memory_GiB > 0) platform.spec.device.memory_bytes = chosen.question.target.capacity_bytes;
  plan_runnable({.run = std::move(run), .num_ranks = s.num_devices, .given = chosen.question.given}, chosen, platform,
                {.output = output_of(o), .out = l.out, .top = l.top, .threads = l.threads});
}

// What train can't execute has no plan of segments: it is estimated as a search estimates a layout that is all given.
void estimate_run(plan::RunSpec run, Options& o, const Context& context) {
  refuse_question(run, o);
  refuse_given(*o.command, {"--actions"}, "train can't execute this layout, so there are none: it is estimated", run.file);
  refuse_given(*o.command, {"--top", "--threads"}, "has a meaning only with --search");
  QuestionOptions& q = o.layout.question;
  if (!run.layout.schedule_file.path.empty())
    throw ConfigError(
        {.file = run.file,
         .key = "layout.schedule_file",
         .value = run.layout.schedule_file.path,
         .allowed = "a schedule from a file is planned by segments, and the rest of this run is only estimated"});
  q.devices = o.ranks > 0 ? o.ranks : world_of(run.layout);
  q.set = {fmt::format("precision.compute={}", name_of(compute_of(run))),
           fmt::format("batch.sequence_length={}", run.batch.sequence_length),
           fmt::format("batch.global_batch={}", run.batch.global_batch)};
  if (q.platform.empty()) q.platform = run.platform.string();
  if (q.platform.empty())
    throw ConfigError({.file = run.file, .key = "platform", .value = "", .allowed = "is missing: --platform, a file or a name"});
  ChosenQuestion chosen = choose_question(q, context, run.model);
  chosen.question = search::given_layout(run, static_cast<int>(q.devices), std::move(chosen.question));
  plan_question(o.layout, chosen);
}

// Of a run's file: its model, data and batch stay. Keys of the layout that the command line gives are kept; those of the
// file are what is searched.
void search_run(plan::RunSpec run, Options& o, const Context& context) {
  QuestionOptions& q = o.layout.question;
  refuse_question(run, o);
  refuse_given(*o.command, {"--data"}, "the run's file says that; --ranks and --set change it", run.file);
  if (!run.layout.schedule_file.path.empty())
    throw ConfigError({.file = run.file,
                       .key = "layout.schedule_file",
                       .value = run.layout.schedule_file.path,
                       .allowed = "must be left out with --search, which takes schedules by name"});
  q.devices = o.ranks > 0 ? o.ranks : number_of_ranks(run);
  q.set = {fmt::format("batch.sequence_length={}", run.batch.sequence_length),
           fmt::format("batch.global_batch={}", run.batch.global_batch),
           fmt::format("precision.compute={}", name_of(compute_of(run))),
           fmt::format("layout.bucket_MiB={}", run.layout.bucket_MiB)};
  for (const std::string& set : o.set)
    if (belongs_to_question(set)) q.set.push_back(set);
  const ChosenPlatform platform = choose_platform(q.platform, q.stack, run, context);
  if (!q.platform.empty()) run.platform = std::filesystem::absolute(platform_file(q.platform, context)).lexically_normal();
  const ChosenQuestion chosen = choose_question(q, context, run.model, platform.spec);
  o.layout.as_run = [&](const sim::Setting& s) {
    plan::RunSpec out = run;
    out.layout = s.layout, out.batch = s.batch;
    return out;
  };
  if (o.runnable) return search_runnable(o, run, chosen, platform);
  plan_question(o.layout, chosen);
}

void search_model(Options& o, const Context& context) {
  const QuestionOptions& q = o.layout.question;
  const auto need = [](bool given, const char* option, const char* what) {
    if (!given) throw ConfigError({.key = option, .value = "", .allowed = what});
  };
  need(!q.platform.empty(), "--platform", "is missing: the machine, a file or a name such as dgx_h100");
  need(q.devices > 0, "--devices", "is missing: the number of devices");
  const ChosenQuestion chosen = choose_question(q, context);
  const std::filesystem::path file = platform_file(q.platform, context);
  const ChosenPlatform platform = choose_platform(q.platform, q.stack, {}, context);
  const RunPlace place{.out = o.layout.out.empty() ? chosen.question.base.model.name : o.layout.out,
                       .platform = file,
                       .device = platform.spec.device.kind == "cpu" ? "cpu" : "cuda",
                       .data = o.data};
  o.layout.as_run = [&](const sim::Setting& s) { return run_of(s, place); };
  if (o.runnable) {
    plan::RunSpec run = run_of(chosen.question.base, place);
    run.file = o.layout.out;
    return search_runnable(o, run, chosen, platform);
  }
  plan_question(o.layout, chosen);
}

void plan_command(Options& o, const Context& context) {
  for (const std::string& word : o.rest) {
    if (word.find('=') != std::string::npos) o.set.push_back(word);
    else if (o.run.empty()) o.run = word;
    else throw ConfigError({.key = "RUN", .value = word, .allowed = "one run only"});
  }
  const bool of_model = !o.layout.question.model.empty();
  if (o.run.empty() != of_model)
    throw ConfigError({.key = "plan", .value = o.run, .allowed = "either a run's file, or --model with --platform and --devices"});
  if (of_model) {
    refuse_given(*o.command, {"--search", "--show"}, "is for a run's file: --model searches by itself");
    refuse_given(*o.command, {"--ranks"}, "is of a run's file: --devices says for how many a model is planned");
    if (o.layout.out.empty()) refuse_given(*o.command, {"--data"}, "goes into the run that --out writes");
  }
  if ((of_model || o.search) && !o.runnable)
    refuse_given(*o.command, {"--actions"}, "is of a layout that is simulated: needs --runnable, or a run's file without --search");
  o.layout.question.set = o.set;
  if (of_model) {
    check_outputs_of(o, {});
    return search_model(o, context);
  }
  if (std::string& platform = o.layout.question.platform; !platform.empty())
    platform = platform_file(platform, context).string();
  std::vector<std::string> of_run;
  for (const std::string& set : o.set)
    if (!o.search || !belongs_to_question(set)) of_run.push_back(set);
  const plan::RunSpec run = plan::load_run(o.run, of_run);
  check_outputs_of(o, run);
  if (!o.search)
    refuse_options({{"--runnable", o.runnable}, {"--out", !o.layout.out.empty()}, {"--data", !o.data.empty()}}, run.file,
                   "needs --search, or --model in place of a run's file");
  if (!o.show.empty()) {
    refuse_options({{"--search", o.search}}, run.file,
                   "not with --show, which prints the schedule of the file's layout");
    const int ranks = o.ranks > 0 || !plan::has_plan_of_segments(run.layout) ? o.ranks : number_of_ranks(run);
    write_output(shown_schedule(run, ranks, o.show));
    return;
  }
  if (run.published) {
    refuse_given(*o.command, {"--search", "--top", "--threads", "--memory-GiB", "--actions"},
                 "not for a published run, whose layout is given and estimated", run.file);
    refuse_given(*o.command, {"--ranks", "--precision", "--global-batch", "--sequence"}, "the file of a published run says that",
                 run.file);
    return plan_published(o.layout, run, context);
  }
  if (o.search) return search_run(run, o, context);
  if (!plan::has_plan_of_segments(run.layout) || !model::untrainable(run.model).empty())
    return estimate_run(run, o, context);
  plan_run(run, o, context);
}

}  // namespace

void add_plan_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  LayoutPlanOptions& layout = options->layout;
  CLI::App* command = app.add_subcommand(
      "plan", "Print a run's layout, schedule, memory and predicted speed (RUN), or find the best layout of a run (RUN --search) or "
              "of a model on a machine (--model, --platform, --devices); runs nothing.");
  command->add_option("RUN", options->rest, "TOML file of the run; or further KEY=VALUE of --set");
  command->add_option("--model", layout.question.model, "a name (deepseek_v3), a TOML file or a Hugging Face config.json");
  add_question_options(*command, layout.question);
  command->add_option("--set", options->set, "KEY=VALUE...: override a key of the run, or fix one of the layout; repeatable")
      ->allow_extra_args(false);
  command->add_option("--ranks", options->ranks, "RUN: number of ranks (default: layout.pp x layout.dp)")->check(whole_number(1, 100'000'000));
  command->add_flag("--search", options->search, "RUN: find its layout and micro-batch; what --set gives of them is kept");
  command->add_flag("--runnable", options->runnable, "search only layouts that trireme train executes, and simulate them");
  command->add_option("--out", layout.out, "write the layout found as a run's file");
  command->add_option("--data", options->data, "--model with --out: prefix of token files (default: random tokens)");
  command->add_option("--top", layout.top, "layouts to print")->check(whole_number(1, 1000))->capture_default_str();
  command->add_option("--threads", layout.threads, "of the search (default: all cores)")->check(whole_number(1, most_threads));
  command->add_flag("--pareto", layout.pareto, "also search less memory, and other numbers of devices");
  command->add_option("--csv", layout.csv, "write every layout that was estimated in full");
  command
      ->add_option("--show", options->show,
                   "RUN: print its schedule and nothing else: grid, or csv as PyTorch reads it")
      ->check(CLI::IsMember({"grid", "csv"}));
  command->add_flag("--json", layout.json, "print one JSON object");
  command->add_flag("--explain", layout.explain, "also print every price with what it consists of");
  command->add_flag("--actions", options->actions, "RUN: also print every action of every stage");
  command->add_option("--html", layout.html, "write a self-contained page with the timeline");
  command->add_option("--trace", layout.trace, "write a Chrome/Perfetto trace");
  command->footer([] { return plan::layout_key_help(); });
  options->command = command;
  command->callback([options, &context] { plan_command(*options, context); });
}

}  // namespace trireme::apps
