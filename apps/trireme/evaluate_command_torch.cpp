#include "base/errors.h"
#include "trireme/evaluate_rank.h"
#include "trireme/launch.h"
#include "trireme/positive_number.h"
#include "trireme/rank_process.h"

namespace trireme::apps {
namespace {

// A rank among those that a launcher has started: bad input is told once.
int be_a_rank(const EvaluateOptions& o, const comm::LaunchEnv& env, const Context& context) {
  std::optional<EvaluatedRun> evaluated;
  try {
    evaluated = evaluated_run(o, env.world);
    check_evaluation(*evaluated);
  } catch (const ConfigError& error) {
    if (env.world == 1) throw;
    return refuse(error, env);
  }
  return evaluate_rank(*evaluated, o.json, env, context);
}

void run(const EvaluateOptions& o, Context& context) {
  const comm::LaunchEnv env = find_place(context);
  if (comm::ranks_to_start(env, o.ranks, 1) == 0) {
    wait_asleep(context);
    context.exit_code = be_a_rank(o, env, context);
    return;
  }
  const EvaluatedRun evaluated = evaluated_run(o, 0);
  check_evaluation(evaluated);
  if (evaluated.ranks == 1) {
    wait_asleep(context);
    context.exit_code = evaluate_rank(evaluated, o.json, env, context);
    return;
  }
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(evaluated.run.timeout_s * 1e3));
  context.exit_code = launch_local({.ranks = evaluated.ranks, .timeout = timeout}, context);
}

}  // namespace

void add_evaluate_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App* c = app.add_subcommand(
      "evaluate", "Loss, perplexity and bits per byte of a run, a checkpoint or a Hugging Face folder on data sets");
  c->add_option("SOURCE", options->source, "A run's folder or file, a checkpoint, or a Hugging Face folder")
      ->required();
  c->add_option("--data", options->data,
                "PREFIX or PREFIX=NAME of a .bin/.idx pair; repeatable (default: the run's data.valid)")
      ->allow_extra_args(false);
  c->add_option("--sequences", options->sequences, "Sequences of each set, or \"all\"")->capture_default_str();
  CLI::Option* step = c->add_option("--step", options->step, "The run's checkpoint of this step (default: the newest)")
                          ->check(whole_number(1, largest_step));
  c->add_flag("--best", options->best, "The run's checkpoint with the lowest evaluation loss")->excludes(step);
  c->add_option("--sequence-length", options->sequence_length, "Tokens of a sequence (default: the run's, else 1024)")
      ->check(whole_number(1, std::uint64_t{1} << 40));
  c->add_option("--micro-batch", options->micro_batch,
                "Sequences that a rank computes at once (default: the run's, else 1)")
      ->check(whole_number(1, 1 << 24));
  c->add_option("--ranks", options->ranks, "Ranks to start on this host (default: as the run's layout says, else 1)")
      ->check(whole_number(1, most_ranks_asked));
  c->add_option("--set", options->set, "KEY=VALUE: override a key of the run; repeatable")->allow_extra_args(false);
  c->add_flag("--json", options->json, "Print one JSON object on standard output");
  c->callback([options, &context] { run(*options, context); });
}

}  // namespace trireme::apps
