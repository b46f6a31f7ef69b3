#include <cstdio>

#include "base/errors.h"
#include "base/final_failure.h"
#include "base/log.h"
#include "plan/run_warnings.h"

#include <nlohmann/json.hpp>
#include "train/checkpoint/check_start.h"
#include "comm/exit_codes.h"
#include "trireme/launch.h"
#include "trireme/positive_number.h"
#include "trireme/rank_process.h"
#include "trireme/standard_output.h"
#include "trireme/start_checks.h"

namespace trireme::apps {

namespace {

struct Options {
  std::string config, platform;
  std::vector<std::string> set;
  int ranks = 0, restarts = 0;
  bool resume = false, resume_if_any = false, force = false, json = false;
};

// Once for all ranks.
void warn(const plan::RunSpec& run) {
  for (const std::string& warning : plan::warnings(run)) spdlog::warn("{}", warning);
}

RankOptions rank_options(const Options& o, const comm::LaunchEnv& env) {
  RankOptions options{.run = plan::load_run(o.config, o.set), .platform = o.platform,
                      .resume = o.resume          ? train::Resume::must
                                : o.resume_if_any ? train::Resume::if_any
                                                  : train::Resume::never,
                      .force = o.force,
                      .json = o.json};
  // What is in the folder when a launcher starts the ranks again is this run's own.
  if (env.attempt > 0 && options.resume == train::Resume::never) options.resume = train::Resume::if_any;
  // The run's folder names it, for `trireme report`.
  if (!o.platform.empty()) options.run.platform = std::filesystem::absolute(o.platform).lexically_normal();
  return options;
}

std::string where_it_goes_on(const plan::RunSpec& run) {
  if (const auto at = train::checkpoint_to_resume(run, train::Resume::if_any)) return fmt::format("from step {}", at->step);
  if (run.checkpoint.every == 0) return "from the beginning: checkpoint.every is 0";
  return "from the beginning: there is no checkpoint yet";
}

int run_in_a_launch(const Options& o, const comm::LaunchEnv& env, const Context& context) {
  std::optional<RankOptions> options;
  try {
    options = rank_options(o, env);
    if (o.restarts > 0 && env.source != comm::LaunchSource::trireme)
      throw ConfigError({.key = "--restarts", .value = std::to_string(o.restarts),
                         .allowed = fmt::format("only where trireme starts the ranks; here {} has", comm::name_of(env.source))});
  } catch (const ConfigError& error) {
    if (env.world == 1) throw;
    return refuse(error, env);
  }
  if (env.rank == 0 && env.source != comm::LaunchSource::trireme) warn(options->run);
  try {
    return run_rank(*options, env, context);
  } catch (const FinalFailure& failure) {
    if (env.source != comm::LaunchSource::trireme) throw;
    std::fprintf(stderr, "trireme: failed: %s\n", failure.what());
    return comm::exit_final_failure;
  }
}

void run(const Options& o, Context& context) {
  ignore_gone_readers();
  const comm::LaunchEnv env = find_place(context);
  if (comm::ranks_to_start(env, o.ranks, 1) == 0) {
    wait_asleep(context);
    context.exit_code = run_in_a_launch(o, env, context);
    return;
  }
  const RankOptions options = rank_options(o, env);
  const plan::LayoutSpec& layout = options.run.layout;
  const int ranks = comm::ranks_to_start(env, o.ranks, layout.pp * (layout.dp > 0 ? layout.dp : layout.ep));
  check_before_launch(options, ranks);
  check_device(options.run, ranks);
  check_memory(options, ranks);
  if (ranks == 1 && o.restarts == 0) {
    wait_asleep(context);
    warn(options.run);
    context.exit_code = run_rank(options, env, context);
    return;
  }
  train::check_start(options.run, train::checkpoint_to_resume(options.run, options.resume));
  warn(options.run);
  context.exit_code = launch_local({.ranks = ranks,
                                    .timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.run.timeout_s * 1e3)),
                                    .restarts = o.restarts,
                                    .goes_on = [run = options.run] { return where_it_goes_on(run); }},
                                   context);
}

}  // namespace

void add_train_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("train", "Train as a run file says, on local ranks or under torchrun or srun");
  c->add_option("RUN", options->config, "TOML file of the run")->required();
  c->add_option("--set", options->set, "KEY=VALUE: override a key of the file; repeatable")->allow_extra_args(false);
  c->add_option("--ranks", options->ranks, "Ranks to start on this host (default: layout.pp x dp, or pp x ep)")
      ->check(whole_number(1, most_ranks_asked));
  c->add_option("--restarts", options->restarts, "How often to start all ranks again, from the newest checkpoint, after one has died")
      ->check(whole_number(0, 1'000'000));
  c->add_option("--platform", options->platform, "Platform file from `trireme probe`");
  CLI::Option* resume = c->add_flag("--resume", options->resume, "Go on from the newest checkpoint of the run's folder");
  c->add_flag("--resume-if-any", options->resume_if_any, "The same where there is one, else start")->excludes(resume);
  c->add_flag("--force", options->force, "Start although the memory that the plan needs is not free");
  c->add_flag("--json", options->json, "Print one JSON object a step on standard output");
  c->callback([options, &context] { run(*options, context); });
}

}  // namespace trireme::apps
