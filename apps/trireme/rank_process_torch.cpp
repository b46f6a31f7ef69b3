#include "trireme/rank_process.h"

#include <array>
#include <cstdio>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/version.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/log.h"
#include "comm/connect_store.h"
#include "comm/error_text.h"
#include "comm/exit_codes.h"
#include "comm/liveness.h"
#include "comm/told_once.h"
#include "model/untrainable.h"
#include "plan/exchange_pattern.h"
#include "plan/run_files.h"
#include "plan/run_folder.h"
#include "train/checkpoint/check_start.h"
#include "train/data/evaluation_data.h"
#include "train/data/training_data.h"
#include "train/hf/hf_companions.h"
#include "train/run_folder/run_info.h"
#include "train/run_folder/run_lease.h"
#include "trireme/from_rank_zero.h"
#include "trireme/memory_failure.h"
#include "trireme/platform_choice.h"
#include "trireme/rank_life.h"
#include "trireme/run_plan.h"
#include "trireme/run_output.h"
#include "trireme/start_checks.h"
#include "trireme/stop_signals.h"
#include "trireme/version.h"

namespace trireme::apps {

namespace {

constexpr int measured_steps_kept = 50;

struct Planned {
  plan::RunSpec run;  // with the pattern that was chosen
  plan::Plan plan;
  plan::Costs costs;
  plan::Prediction prediction;
  train::RunIdentity identity;
  std::unique_ptr<train::RunLease> lease;  // rank 0
  MemoryNeed need;
};

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

// A new run, or a new session of the one that is resumed.
std::unique_ptr<train::RunLease> take_folder(const RankOptions& options, const std::optional<train::CheckpointInfo>& resumed) {
  const plan::RunSpec& run = options.run;
  std::string id = resumed ? train::run_id_of(run.folder) : "";
  if (id.empty()) id = train::random_id();
  try {
    return std::make_unique<train::RunLease>(
        train::RunLeaseOptions{.folder = run.folder, .identity = {id, train::random_id()},
                               .on_message = [](const std::string& text) { spdlog::info(text); },
                               .stop_requested = [] { return stop_was_requested(); }});
  } catch (const std::system_error& error) {
    if (!is_bad_path(error.code())) throw;
    throw ConfigError({.file = run.file, .key = "folder", .value = run.folder.string(),
                       .allowed = fmt::format("can't be made or written: {}", error.code().message())});
  }
}

// Rank 0 plans and prices; the others take what it found.
Planned agree_on_plan(const RankOptions& options, plan::Mesh mesh, int rank, comm::Communicator& communicator,
                      c10d::Store& store) {
  Planned out{.run = options.run};
  mesh.ranks_of_host = ranks_of_hosts(options.run, communicator);
  const nlohmann::json agreed = from_rank_zero("plan", rank, communicator, store, [&] {
    const platform::PlatformSpec platform = choose_platform(options.platform, options.run);
    mesh.hosts_per_group = platform.host.nodes_per_group;
    RunPlan planned = make_run_plan(options.run, mesh, platform, {.keep = pattern_to_keep(options, mesh)});
    out.plan = std::move(planned.plan);
    out.costs = std::move(planned.predicted.priced.costs);
    out.prediction = std::move(planned.predicted.prediction);
    out.need = memory_need(options.run, out.prediction, platform);
    const auto resumed = train::checkpoint_to_resume(options.run, options.resume);
    train::check_start(options.run, resumed);
    out.lease = take_folder(options, resumed);
    // Another run may have ended there since.
    if (train::checkpoint_to_resume(options.run, options.resume) != resumed)
      throw ConfigError({.key = "folder", .value = options.run.folder.string(),
                         .allowed = "another run has written a checkpoint there while this one started: start it again"});
    out.identity = out.lease->identity();
    if (mesh.world() == 1) return nlohmann::json::object();
    return nlohmann::json{{"plan", out.plan}, {"step_s", out.prediction.step_s},
                          {"run", out.identity.run}, {"session", out.identity.session}, {"need", out.need}};
  });
  if (rank != 0) {
    out.plan = agreed.at("plan").get<plan::Plan>();
    out.prediction.step_s = agreed.at("step_s").get<double>();
    out.identity = {agreed.at("run").get<std::string>(), agreed.at("session").get<std::string>()};
    agreed.at("need").get_to(out.need);
  }
  out.run.layout.all_to_all = out.plan.all_to_all;
  return out;
}

// The name of every rank's host: rank 0 reads what each has written.
std::vector<std::string> names_of_hosts(int rank, int world, c10d::Store& store) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const auto key = [](int r) { return fmt::format("host_name/{}", r); };
  std::vector<std::string> out;
  try {
    store.set(key(rank), std::string(name.data()));
    for (int r = 0; rank == 0 && r < world; ++r) out.push_back(store.get_to_str(key(r)));
  } catch (const std::exception& error) {
    throw RuntimeFailure({.operation = "exchange names of hosts", .group = "world", .reason = comm::error_text(error)});
  }
  return out;
}

void write_run_folder(const RankOptions& options, const Planned& planned, const Context& context,
                      const std::vector<std::string>& hosts) {
  const plan::RunSpec& run = options.run;
  const auto resumed = train::checkpoint_to_resume(run, options.resume);
  train::add_session(run.folder, run.name, planned.identity,
                     {.from_step = resumed ? resumed->step : 0, .command = context.arguments, .version = program_version(),
                      .torch = TORCH_VERSION, .rank_hosts = hosts,
                      .environment = train::telling_variables(context.environment)});
  const std::filesystem::path companions = run.folder / train::companion_folder;
  if (!resumed) train::remove_companions(companions);
  if (!std::filesystem::exists(companions))
    if (const std::string note = train::write_companions(companions, run); !note.empty()) spdlog::info(note);
  write_file_atomically(run.folder / "run.toml", plan::to_toml(run));
  plan::write_plan(run.folder, planned.plan);
  plan::write_costs(run.folder, planned.costs);
  plan::write_prediction(run.folder, planned.prediction);
}

// What the rank does between meeting the others and ending with them.
int train_among(RankLife& life, const RankOptions& options, const Context& context) {
  const plan::RunSpec& run = options.run;
  const comm::LaunchEnv& env = life.env();
  const plan::Mesh mesh = plan::resolve_mesh(run, env.world);
  check_before_launch(options, env.world);
  life.find_local_ranks();
  check_device(run, env.local_world);
  comm::Communicator& communicator = life.meet(mesh, run.device.device, threads_of_rank(run.device.threads, env, context));
  const Planned planned = agree_on_plan(options, mesh, env.rank, communicator, life.store());
  // Where this program has started the ranks it has looked before.
  if (env.source == comm::LaunchSource::torchrun || env.source == comm::LaunchSource::slurm)
    agree_that_it_fits(options, planned.need, env, communicator);
  const std::vector<std::string> hosts = names_of_hosts(env.rank, env.world, life.store());

  std::unique_ptr<RunOutput> output;
  if (env.rank == 0) output = std::make_unique<RunOutput>(run, planned.plan, planned.prediction, options.json);
  plan::MeasuredSteps measured(env.rank, measured_steps_kept);
  train::TrainerOptions to;
  to.rank = env.rank;
  to.local_rank = env.local_rank;
  to.resume = options.resume;
  to.identity = planned.identity;
  if (planned.lease) to.check_folder = [&planned] { planned.lease->check(); };
  to.predicted_step_s = planned.prediction.step_s;
  to.stop_requested = [] { return stop_was_requested(); };
  to.stop_comes_after = [](const char* what) { stop_comes_after(what); };
  to.in_vain = [&life] { return life.in_vain(); };
  to.on_step = [&](std::int64_t step, const parallel::StepResult& result) {
    // The first step makes buffers and meets peers for the first time: it is no sample of the others.
    if (step > 1) measured.add(step, result.timeline.step_s, result.timeline.spans, result.expert_rows, result.timeline.phases);
  };
  if (output) {
    to.on_metrics = [&](const train::StepMetrics& m) {
      planned.lease->check();
      output->step(m);
    };
    to.on_place = [&](std::int64_t step) { output->goes_on_behind(step); };
    to.on_message = [&](const std::string& text) { output->message(text); };
  }
  train::TrainOutcome outcome;
  name_memory_holders(env.rank, planned.need.parts.at(static_cast<std::size_t>(mesh.pp_index(env.rank))), [&] {
    train::Trainer trainer(planned.run, planned.plan, communicator, life.shared_store(), std::move(to));
    // Not before: a checkpoint that turns out to be damaged leaves the folder as it was.
    if (env.rank == 0) write_run_folder(options, planned, context, hosts);
    // Until here a signal ends the rank: there was nothing to save.
    const bool own_launcher = env.source == comm::LaunchSource::trireme;
    catch_stop_signals({.says_so = env.rank == 0, .second_kills = env.world == 1 && !own_launcher});
    outcome = trainer.run();
  });
  if (!measured.empty()) {
    plan::MeasuredRank summary = measured.summary(outcome.peak_bytes);
    summary.checkpoint_peak_bytes = outcome.checkpoint_peak_bytes;
    summary.checkpoint_copy_bytes = outcome.checkpoint_copy_bytes;
    plan::write_measured(run.folder, summary);
  }
  if (output) output->end(outcome);
  return outcome.stopped_early ? comm::exit_stopped : exit_ok;
}

}  // namespace

void check_before_launch(const RankOptions& options, int num_ranks) {
  plan::check_run_folder(options.run);
  model::refuse_untrainable(options.run.model, options.run.file);
  plan::resolve_mesh(options.run, num_ranks);
  const auto data = train::open_training(options.run);
  train::open_evaluation(options.run);
  if (const auto latest = train::checkpoint_to_resume(options.run, options.resume)) train::check_resume(options.run, *latest, *data);
  else train::check_companions(options.run.folder / train::companion_folder);
}

int refuse(const ConfigError& error, const comm::LaunchEnv& env) {
  constexpr std::chrono::milliseconds patience{5000};
  try {
    const auto store = comm::connect_store(env, patience);
    comm::Liveness::report_death(*store, env.rank, std::string("failed: ") + error.what());
    const bool first = comm::first_to_tell(*store, error.what());
    if (env.serves_store) comm::wait_until_asked(*store, env.world, patience);
    if (!first) return exit_bad_input;
  } catch (const std::exception&) {
    // Nobody to agree with: this rank tells.
  }
  throw error;
}

int run_rank(const RankOptions& options, const comm::LaunchEnv& launched_as, const Context& context) {
  const plan::RunSpec& run = options.run;
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(run.timeout_s * 1e3));
  RankLife life(launched_as, timeout, "start of the run");
  std::optional<DoesNotFit> refused;
  const int code = life.run([&] {
    try {
      return train_among(life, options, context);
    } catch (const RankZeroRefused&) {
      return exit_bad_input;
    } catch (const DoesNotFit& error) {
      refused = error;
      return exit_bad_input;
    }
  });
  if (refused && refused->here) throw *refused->here;
  if (refused) spdlog::info("ends: another host has too little memory");
  return code;
}

}  // namespace trireme::apps
