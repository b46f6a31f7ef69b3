#include "base/errors.h"
#include "base/log.h"
#include "plan/run_warnings.h"

#include <nlohmann/json.hpp>
#include "trireme/launch.h"
#include "trireme/positive_number.h"
#include "trireme/rank_process.h"
#include "trireme/start_checks.h"

namespace trireme::apps {

namespace {

struct Options {
  std::string config, platform;
  std::vector<std::string> set;
  int ranks = 0;
  bool resume = false, resume_if_any = false, force = false, json = false;
};

void run(const Options& o, Context& context) {
  const comm::LaunchEnv env = comm::parse_launch_env(context.environment);
  const bool launched = env.source != comm::LaunchSource::single;
  RankOptions options{.run = plan::load_run(o.config, o.set), .platform = o.platform,
                      .resume = o.resume          ? train::Resume::must
                                : o.resume_if_any ? train::Resume::if_any
                                                  : train::Resume::never,
                      .force = o.force,
                      .json = o.json};
  // The run's folder names it, for `trireme report`.
  if (!o.platform.empty()) options.run.platform = std::filesystem::absolute(o.platform).lexically_normal();
  // Once for all ranks.
  if (env.rank == 0 && env.source != comm::LaunchSource::trireme)
    for (const std::string& warning : plan::warnings(options.run)) spdlog::warn("{}", warning);
  if (launched) {
    if (o.ranks > 0 && o.ranks != env.world)
      throw ConfigError({.key = "--ranks", .value = std::to_string(o.ranks),
                         .allowed = fmt::format("{} has started {} ranks", comm::name_of(env.source), env.world)});
    context.exit_code = run_rank(options, env, context);
    return;
  }
  const plan::LayoutSpec& layout = options.run.layout;
  const int ranks = o.ranks > 0 ? o.ranks : layout.pp * (layout.dp > 0 ? layout.dp : layout.ep);
  check_before_launch(options, ranks);
  check_device(options.run, ranks);
  check_memory(options, ranks);
  if (ranks == 1) {
    context.exit_code = run_rank(options, env, context);
    return;
  }
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.run.timeout_s * 1e3));
  context.exit_code = launch_local(ranks, context, timeout);
}

}  // namespace

void add_train_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("train", "Train as a run file says, on local ranks or under torchrun or srun");
  c->add_option("RUN", options->config, "TOML file of the run")->required();
  c->add_option("--set", options->set, "KEY=VALUE: override a key of the file; repeatable")->allow_extra_args(false);
  c->add_option("--ranks", options->ranks, "Ranks to start on this host (default: layout.pp x dp, or pp x ep)")
      ->check(positive_number());
  c->add_option("--platform", options->platform, "Platform file from `trireme probe`");
  CLI::Option* resume = c->add_flag("--resume", options->resume, "Go on from the newest checkpoint of the run's folder");
  c->add_flag("--resume-if-any", options->resume_if_any, "The same where there is one, else start")->excludes(resume);
  c->add_flag("--force", options->force, "Start although the memory that the plan needs is not free");
  c->add_flag("--json", options->json, "Print one JSON object a step on standard output");
  c->callback([options, &context] { run(*options, context); });
}

}  // namespace trireme::apps
