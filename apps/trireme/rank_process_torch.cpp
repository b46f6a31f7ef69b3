#include "trireme/rank_process.h"

#include <cstdio>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/log.h"
#include "comm/error_text.h"
#include "comm/liveness.h"
#include "model/untrainable.h"
#include "nn/out_of_memory.h"
#include "nn/counting_allocator.h"
#include "parallel/thread_policy.h"
#include "plan/all_to_all/generators.h"
#include "plan/exchange_pattern.h"
#include "plan/run_files.h"
#include "train/data/sequence_source.h"
#include "trireme/memory_failure.h"
#include "trireme/platform_choice.h"
#include "trireme/run_plan.h"
#include "trireme/run_output.h"
#include "trireme/start_checks.h"
#include "trireme/stop_signals.h"

namespace trireme::apps {

namespace {

constexpr int measured_steps_kept = 50;

int threads_of_rank(const plan::RunSpec& run, const comm::LaunchEnv& env, const Context& context) {
  if (run.device.threads > 0) return run.device.threads;
  // A launcher that sets OMP_NUM_THREADS means it: torchrun sets 1, a Slurm script its --cpus-per-task.
  if (const auto at = context.environment.find("OMP_NUM_THREADS"); at != context.environment.end())
    if (const int threads = std::atoi(at->second.c_str()); threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / std::max(1, env.local_world));
}

struct Planned {
  plan::RunSpec run;  // with the pattern that was chosen
  plan::Plan plan;
  plan::Costs costs;
  plan::Prediction prediction;
  MemoryNeed need;
};

// How many ranks each host has, in order of rank. Nothing where the ranks of a host are not consecutive, which only
// patterns that know nodes mind.
std::vector<int> ranks_of_hosts(const plan::RunSpec& run, comm::Communicator& communicator) {
  try {
    return communicator.node_shape(communicator.group(plan::world_group)).ranks_of_node();
  } catch (const ConfigError&) {
    if (run.layout.all_to_all != "auto" && plan::needs_nodes(run.layout.all_to_all)) throw;
    return {};
  }
}

// The pattern of the run that is resumed: sums in another order would be another run.
std::string pattern_to_keep(const RankOptions& options, const plan::Mesh& mesh) {
  if (!train::checkpoint_to_resume(options.run, options.resume) || !std::filesystem::exists(options.run.folder / "plan.json"))
    return {};
  plan::Plan before = plan::read_plan(options.run.folder);
  before.mesh.ranks_of_host = mesh.ranks_of_host, before.mesh.hosts_per_group = mesh.hosts_per_group;
  const bool same = before.mesh == mesh;
  const auto fitting = plan::fitting_patterns(mesh);
  return same && std::find(fitting.begin(), fitting.end(), before.all_to_all) != fitting.end() ? before.all_to_all : "";
}

// Thrown on the other ranks where rank 0 could not plan: it says why.
struct NoPlan {};

// Rank 0 plans and prices; the others take what it found, so that all run one value whatever files they see.
Planned agree_on_plan(const RankOptions& options, plan::Mesh mesh, int rank, comm::Communicator& communicator,
                      c10d::Store& store) {
  const std::string key = "plan";
  Planned out{.run = options.run};
  mesh.ranks_of_host = ranks_of_hosts(options.run, communicator);
  if (rank == 0) {
    try {
      const platform::PlatformSpec platform = choose_platform(options.platform, options.run);
      mesh.hosts_per_group = platform.host.nodes_per_group;
      RunPlan planned = make_run_plan(options.run, mesh, platform, {.keep = pattern_to_keep(options, mesh)});
      out.plan = std::move(planned.plan);
      out.costs = std::move(planned.predicted.priced.costs);
      out.prediction = std::move(planned.predicted.prediction);
      out.need = memory_need(options.run, out.prediction, platform);
    } catch (const ConfigError&) {
      // The others must know, and have read it before the store ends with this rank.
      store.set(key, "null");
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
      while (store.add(key + "/read", 0) < mesh.world() - 1 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      throw;
    }
    if (mesh.world() > 1)
      store.set(key, nlohmann::json{{"plan", out.plan}, {"step_s", out.prediction.step_s}, {"need", out.need}}.dump());
  } else {
    nlohmann::json j;
    try {
      j = nlohmann::json::parse(store.get_to_str(key));
      store.add(key + "/read", 1);
    } catch (const std::exception& error) {
      throw RuntimeFailure({.rank = 0, .operation = "wait for the plan", .group = "world", .reason = comm::error_text(error)});
    }
    if (j.is_null()) throw NoPlan();
    out.plan = j.at("plan").get<plan::Plan>();
    out.prediction.step_s = j.at("step_s").get<double>();
    j.at("need").get_to(out.need);
  }
  out.run.layout.all_to_all = out.plan.all_to_all;
  return out;
}

void write_run_folder(const plan::RunSpec& run, const Planned& planned) {
  std::filesystem::create_directories(run.folder);
  write_file_atomically(run.folder / "run.toml", plan::to_toml(run));
  plan::write_plan(run.folder, planned.plan);
  plan::write_costs(run.folder, planned.costs);
  plan::write_prediction(run.folder, planned.prediction);
}

}  // namespace

void check_before_launch(const RankOptions& options, int num_ranks) {
  model::refuse_untrainable(options.run.model, options.run.file);
  plan::resolve_mesh(options.run, num_ranks);
  train::open_training(options.run);
  train::open_evaluation(options.run);
  train::checkpoint_to_resume(options.run, options.resume);
}

int run_rank(const RankOptions& options, const comm::LaunchEnv& env, const Context& context) {
  const plan::RunSpec& run = options.run;
  check_device(run, env.local_world);
  set_up_log({.rank = env.world > 1 ? env.rank : -1});
  catch_stop_signals();
  if (env.local_world > 1) parallel::use_batch_scheduling();
  at::set_num_threads(threads_of_rank(run, env, context));
  const plan::Mesh mesh = plan::resolve_mesh(run, env.world);
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(run.timeout_s * 1e3));
  nn::install_counting_allocator();

  const auto store = comm::connect_store(env, timeout);
  std::unique_ptr<comm::Communicator> communicator;
  std::atomic<comm::Communicator*> to_abort{nullptr};
  std::unique_ptr<comm::Liveness> liveness;
  if (env.world > 1)
    liveness = std::make_unique<comm::Liveness>(store, comm::Liveness::Options{.rank = env.rank, .world = env.world, .timeout = timeout},
                                                [&to_abort](const comm::DeadRank&) {
                                                  if (comm::Communicator* c = to_abort.load()) c->abort();
                                                });
  try {
    check_before_launch(options, env.world);
    communicator = std::make_unique<comm::Communicator>(
        store, comm::CommunicatorOptions{.rank = env.rank, .mesh = mesh,
                                         .device = run.device.device == "cpu" ? at::Device(at::kCPU)
                                                                              : at::Device(at::kCUDA, env.local_rank),
                                         .timeout = timeout, .liveness = liveness.get(),
                                         .interface = env.interface, .master_address = env.master_addr});
    to_abort = communicator.get();
    const Planned planned = agree_on_plan(options, mesh, env.rank, *communicator, *store);
    // Where this program has started the ranks it has looked before.
    if (env.source == comm::LaunchSource::torchrun || env.source == comm::LaunchSource::slurm)
      agree_that_it_fits(options, planned.need, env, *communicator);
    if (env.rank == 0) write_run_folder(run, planned);

    std::unique_ptr<RunOutput> output;
    if (env.rank == 0) output = std::make_unique<RunOutput>(run, planned.plan, planned.prediction, options.json);
    plan::MeasuredSteps measured(env.rank, measured_steps_kept);
    train::TrainerOptions to;
    to.rank = env.rank;
    to.local_rank = env.local_rank;
    to.resume = options.resume;
    to.predicted_step_s = planned.prediction.step_s;
    to.stop_requested = [] { return stop_was_requested(); };
    to.on_step = [&](std::int64_t step, const parallel::StepResult& result) {
      // The first step makes buffers and meets peers for the first time: it is no sample of the others.
      if (step > 1) measured.add(step, result.timeline.step_s, result.timeline.spans, result.expert_rows, result.timeline.phases);
    };
    if (output) {
      to.on_metrics = [&](const train::StepMetrics& m) { output->step(m); };
      to.on_message = [&](const std::string& text) { output->message(text); };
    }
    train::TrainOutcome outcome;
    name_memory_holders(env.rank, planned.need.parts.at(static_cast<std::size_t>(mesh.pp_index(env.rank))), [&] {
      train::Trainer trainer(planned.run, planned.plan, *communicator, store, std::move(to));
      outcome = trainer.run();
    });
    if (!measured.empty()) {
      plan::MeasuredRank summary = measured.summary(outcome.peak_bytes);
      summary.checkpoint_peak_bytes = outcome.checkpoint_peak_bytes;
      summary.checkpoint_copy_bytes = outcome.checkpoint_copy_bytes;
      plan::write_measured(run.folder, summary);
    }
    if (output) output->end(outcome);
  } catch (const NoPlan&) {
    if (liveness) liveness->finish();
    spdlog::info("ends: rank 0 could not plan");
    return exit_bad_input;
  } catch (const DoesNotFit& refused) {
    if (liveness) {
      liveness->finish();
      if (env.serves_store) liveness->wait_for_others(timeout);
    }
    if (refused.here) throw *refused.here;
    spdlog::info("ends: another host has too little memory");
    return exit_bad_input;
  } catch (const RuntimeFailure& error) {
    if (!liveness) throw;
    // One rank's death ends all: one of them says so.
    liveness->fail(error.what());
    const bool tells = liveness->tells();
    if (env.serves_store) liveness->wait_until_told(std::min(timeout, liveness->patience()));
    if (tells) throw;
    spdlog::info("ends with rank {}, of which another rank tells", error.detail().rank);
    return exit_runtime_failure;
  } catch (const std::exception& error) {
    const auto memory = nn::out_of_memory(error);
    if (liveness) liveness->fail(memory.value_or(error.what()));
    if (memory) throw RuntimeFailure({.rank = env.rank, .operation = "start of the run", .reason = *memory});
    throw;
  }
  to_abort = nullptr;
  if (liveness) {
    liveness->finish();
    if (env.serves_store) liveness->wait_for_others(timeout);
  }
  return exit_ok;
}

}  // namespace trireme::apps
