#include "base/errors.h"
#include "trireme/commands.h"
#include "trireme/launch.h"
#include "trireme/positive_number.h"
#include "trireme/rank_process.h"
#include "trireme/rehearse_rank.h"

namespace trireme::apps {
namespace {

// A rank among those that a launcher has started: bad input is told once.
int be_a_rank(const RehearseOptions& o, const comm::LaunchEnv& env, const Context& context) {
  plan::RunSpec run;
  try {
    run = check_rehearsal(o, env.world);
  } catch (const ConfigError& error) {
    if (env.world == 1) throw;
    return refuse(error, env);
  }
  return rehearse_rank(o, run, env, context);
}

void run(const RehearseOptions& o, Context& context) {
  const comm::LaunchEnv env = find_place(context);
  if (comm::ranks_to_start(env, o.ranks, 1) == 0) {
    wait_asleep(context);
    context.exit_code = be_a_rank(o, env, context);
    return;
  }
  const plan::LayoutSpec layout = plan::load_run(o.config, o.set).layout;
  const int ranks = comm::ranks_to_start(env, o.ranks, layout.pp * (layout.dp > 0 ? layout.dp : layout.ep));
  const plan::RunSpec run = check_rehearsal(o, ranks);
  if (ranks == 1) {
    wait_asleep(context);
    context.exit_code = rehearse_rank(o, run, env, context);
    return;
  }
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(run.timeout_s * 1e3));
  context.exit_code = launch_local({.ranks = ranks, .timeout = timeout}, context);
}

}  // namespace

void add_rehearse_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<RehearseOptions>();
  CLI::App* c = app.add_subcommand(
      "rehearse", "Run a plan's messages for real and wait instead of computing, on local ranks or under torchrun or srun");
  c->add_option("RUN", options->config, "TOML file of the run")->required();
  c->add_option("--set", options->set, "KEY=VALUE: override a key of the file; repeatable")->allow_extra_args(false);
  c->add_option("--ranks", options->ranks, "Ranks to start on this host (default: layout.pp x dp, or pp x ep)")
      ->check(positive_number());
  c->add_option("--steps", options->steps, "Steps to measure, behind one that is not")
      ->check(positive_number())
      ->capture_default_str();
  c->add_option("--platform", options->platform, "Platform file, or a name of configs/platforms, that prices compute");
  c->add_option("--stack", options->stack, "Software on a platform of data sheets, as for trireme plan");
  c->add_option("--load", options->load,
                "How rows fall on experts: platform (as it was probed, else even), even, a standard deviation over the mean "
                "(0.3), or the folder of a run whose routers are taken")
      ->capture_default_str();
  c->add_flag("--json", options->json, "Print one JSON object on standard output");
  c->add_option("--html", options->html, "Write a page with the timeline there");
  c->add_option("--trace", options->trace, "Write a Chrome/Perfetto trace there");
  c->callback([options, &context] { run(*options, context); });
}

}  // namespace trireme::apps
