#include "trireme/evaluate_rank.h"

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/errors.h"
#include "base/log.h"
#include "comm/connect_store.h"
#include "comm/error_text.h"
#include "comm/exit_codes.h"
#include "comm/group.h"
#include "comm/liveness.h"
#include "comm/told_once.h"
#include "model/untrainable.h"
#include "nn/counting_allocator.h"
#include "parallel/thread_policy.h"
#include "train/checkpoint/training_tensors.h"
#include "train/evaluation.h"
#include "trireme/evaluation_output.h"
#include "trireme/stop_signals.h"
#include "trireme/wait_for_ranks.h"

namespace trireme::apps {
namespace {

int threads_of_rank(const plan::RunSpec& run, const comm::LaunchEnv& env, const Context& context) {
  if (run.device.threads > 0) return run.device.threads;
  if (const auto at = context.environment.find("OMP_NUM_THREADS"); at != context.environment.end())
    if (const int threads = std::atoi(at->second.c_str()); threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / std::max(1, env.local_world));
}

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
  comm::LaunchEnv env = launched_as;
  set_up_log({.rank = env.world > 1 ? env.rank : -1});
  catch_stop_signals({.says_so = env.rank == 0, .second_kills = env.world == 1 && env.source != comm::LaunchSource::trireme});
  stop_comes_after("this pass of the evaluation");
  nn::install_counting_allocator();
  const plan::Mesh mesh = plan::resolve_mesh(run, env.world);
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(run.timeout_s * 1e3));

  const auto own_store = comm::connect_store(env, timeout);
  std::unique_ptr<comm::Communicator> communicator;
  std::atomic<comm::Communicator*> to_abort{nullptr};
  std::unique_ptr<comm::Liveness> liveness;
  if (env.world > 1)
    liveness = std::make_unique<comm::Liveness>(
        own_store,
        comm::Liveness::Options{.rank = env.rank, .world = env.world, .timeout = timeout, .server = comm::server_of(env)},
        [&to_abort](const comm::DeadRank&) {
          if (comm::Communicator* c = to_abort.load()) c->abort();
        });
  const auto store = comm::watched(own_store, [&liveness] { return liveness ? liveness->in_vain() : std::string(); });
  std::optional<train::EvaluationResult> result;
  try {
    std::optional<WaitForRanks> waiting;
    if (env.rank == 0 && env.world > 1) waiting.emplace(env.world, timeout);
    if (!env.local_known) env = comm::with_local_ranks(env, store);
    if (env.local_world > 1) parallel::use_batch_scheduling();
    at::set_num_threads(threads_of_rank(run, env, context));
    communicator = std::make_unique<comm::Communicator>(
        store, comm::CommunicatorOptions{
                   .rank = env.rank,
                   .mesh = mesh,
                   .device = run.device.device == "cpu" ? at::Device(at::kCPU) : at::Device(at::kCUDA, env.local_rank),
                   .timeout = timeout,
                   .liveness = liveness.get(),
                   .interface = env.interface,
                   .master_address = env.master_addr});
    to_abort = communicator.get();
    waiting.reset();
    result = evaluate(evaluated, mesh, env, *communicator);
  } catch (const ConfigError& error) {
    if (!liveness) throw;
    liveness->fail(error.what());
    const bool first = comm::first_to_tell(*own_store, error.what());
    liveness->tells();  // and nobody else
    if (env.serves_store) liveness->wait_until_told(std::min(timeout, liveness->patience()));
    if (first) throw;
    return exit_bad_input;
  } catch (const RuntimeFailure& error) {
    if (!liveness) throw;
    // One rank's death ends all: one of them says so.
    liveness->fail(error.what(), error.detail().group.empty() ? error.detail().rank : -1);
    const bool tells = liveness->tells();
    if (env.serves_store) liveness->wait_until_told(std::min(timeout, liveness->patience()));
    if (tells) throw;
    return exit_runtime_failure;
  } catch (const std::exception& error) {
    if (liveness) liveness->fail(comm::error_text(error));
    throw;
  }
  to_abort = nullptr;
  if (liveness) {
    liveness->finish();
    if (env.serves_store) liveness->wait_for_others(timeout);
  }
  if (env.rank > 0) return result ? exit_ok : exit_runtime_failure;
  if (!result)
    throw RuntimeFailure(
        {.rank = 0, .operation = "evaluate", .reason = "stopped on request before the end: there is no result"});
  print_evaluation(evaluated, open_sets(run), *result, json);
  return exit_ok;
}

}  // namespace trireme::apps
