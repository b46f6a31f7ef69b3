#include "trireme/evaluate_rank.h"

#include "base/errors.h"
#include "comm/group.h"
#include "model/untrainable.h"
#include "train/checkpoint/training_tensors.h"
#include "train/evaluation.h"
#include "trireme/evaluation_output.h"
#include "trireme/rank_life.h"
#include "trireme/stop_signals.h"

namespace trireme::apps {
namespace {

std::vector<train::EvaluationSet> open_sets(const plan::RunSpec& run) {
  return train::open_evaluation(run, "--data");
}

void say(const std::string& text) {
  fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

// Loads the weights and evaluates. Nothing where a stop cut it short.
std::optional<train::EvaluationResult> evaluate(const EvaluatedRun& evaluated, const plan::Mesh& mesh,
                                                const comm::LaunchEnv& env, comm::Communicator& communicator) {
  const plan::RunSpec& run = evaluated.run;
  const plan::Plan layers = plan::make_evaluation_plan(run, mesh, 1);
  const auto model = parallel::make_model(run, layers, env.rank, env.local_rank);
  train::load_model(*train::open_weights(evaluated.weights), *model);
  auto sets = open_sets(run);
  train::EvaluationOptions options{.stop_requested = [] { return stop_was_requested(); }};
  if (env.rank == 0) {
    for (const std::string& text : train::clamped_sets(run, sets)) say(text);
    options.on_message = say;
  }
  train::Evaluation evaluation(run, std::move(sets), mesh, communicator, env.rank, *model, options);
  train::EvaluationResult result = evaluation.run();
  if (!result.complete) return std::nullopt;
  return result;
}

}  // namespace

void check_evaluation(const EvaluatedRun& evaluated) {
  const plan::RunSpec& run = evaluated.run;
  model::refuse_untrainable(run.model, run.file);
  plan::resolve_mesh(run, evaluated.ranks);
  const auto weights = train::open_weights(evaluated.weights);
  train::check_same_model(weights->model(), run.model, evaluated.weights.string());
  train::check_weights(*weights, run.model);
  open_sets(run);
}

int evaluate_rank(const EvaluatedRun& evaluated, bool json, const comm::LaunchEnv& launched_as, const Context& context) {
  const plan::RunSpec& run = evaluated.run;
  catch_stop_signals({.says_so = launched_as.rank == 0,
                      .second_kills = launched_as.world == 1 && launched_as.source != comm::LaunchSource::trireme});
  stop_comes_after("this pass of the evaluation");
  const plan::Mesh mesh = plan::resolve_mesh(run, launched_as.world);
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(run.timeout_s * 1e3));
  RankLife life(launched_as, timeout, "evaluate");
  std::optional<train::EvaluationResult> result;
  bool stopped = false;
  const int code = life.run([&] {
    life.find_local_ranks();
    const comm::LaunchEnv& env = life.env();
    comm::Communicator& communicator = life.meet(mesh, run.device.device, threads_of_rank(run.device.threads, env, context));
    result = evaluate(evaluated, mesh, env, communicator);
    stopped = !result;
    return stopped ? exit_runtime_failure : exit_ok;
  });
  // Where neither is so, the ranks have failed, of which another one tells.
  if (launched_as.rank > 0 || (!result && !stopped)) return code;
  if (stopped)
    throw RuntimeFailure(
        {.rank = 0, .operation = "evaluate", .reason = "stopped on request before the end: there is no result"});
  print_evaluation(evaluated, open_sets(run), *result, json);
  return exit_ok;
}

}  // namespace trireme::apps
