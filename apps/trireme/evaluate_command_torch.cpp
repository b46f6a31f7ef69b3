#include "base/errors.h"
#include "trireme/evaluate_rank.h"
#include "trireme/launch.h"
#include "trireme/positive_number.h"

namespace trireme::apps {
namespace {

void run(const EvaluateOptions& o, Context& context) {
  const comm::LaunchEnv env = comm::parse_launch_env(context.environment);
  const bool launched = env.source != comm::LaunchSource::single;
  if (launched && o.ranks > 0 && o.ranks != env.world)
    throw ConfigError({.key = "--ranks",
                       .value = std::to_string(o.ranks),
                       .allowed = fmt::format("{} has started {} ranks", comm::name_of(env.source), env.world)});
  const EvaluatedRun evaluated = evaluated_run(o, launched ? env.world : 0);
  check_evaluation(evaluated);
  if (launched || evaluated.ranks == 1) {
    context.exit_code = evaluate_rank(evaluated, o.json, env, context);
    return;
  }
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(evaluated.run.timeout_s * 1e3));
  context.exit_code = launch_local(evaluated.ranks, context, timeout);
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
  c->add_option("--step", options->step, "Checkpoint of the run: a step, or \"best\" by its evaluation loss (default: the newest)");
  c->add_option("--sequence-length", options->sequence_length, "Tokens of a sequence (default: the run's, else 1024)")
      ->check(positive_number());
  c->add_option("--micro-batch", options->micro_batch,
                "Sequences that a rank computes at once (default: the run's, else 1)")
      ->check(positive_number());
  c->add_option("--ranks", options->ranks, "Ranks to start on this host (default: as the run's layout says, else 1)")
      ->check(positive_number());
  c->add_option("--set", options->set, "KEY=VALUE: override a key of the run; repeatable")->allow_extra_args(false);
  c->add_flag("--json", options->json, "Print one JSON object on standard output");
  c->callback([options, &context] { run(*options, context); });
}

}  // namespace trireme::apps
