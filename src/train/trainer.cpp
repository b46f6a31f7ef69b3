#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/final_failure.h"
#include "base/rng.h"
#include "comm/liveness.h"
#include "model/parameters.h"
#include "nn/counting_allocator.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint/training_tensors.h"
#include "train/data/batch.h"
#include "train/data/training_data.h"
#include "train/evaluation.h"
#include "train/guard/expert_collapse.h"
#include "train/guard/good_checkpoint.h"
#include "train/guard/update_guard.h"
#include "train/optim/adamw.h"
#include "train/optim/gradient_norm.h"
#include "train/optim/learning_rate.h"
#include "train/optim/ownership.h"

namespace trireme::train {

namespace {

using Clock = std::chrono::steady_clock;

std::filesystem::path checkpoint_folder(const plan::RunSpec& run) { return run.folder / "checkpoints"; }

struct Counts {
  std::int64_t tokens_seen = 0, optimizer_steps = 0;
};

Counts counts_of(const CheckpointReader& reader) {
  return {reader.state().count_or("tokens_seen", 0), reader.state().count_or("optimizer_steps", reader.step())};
}

void restore(const CheckpointReader& reader, UpdateGuard& guard, ExpertCollapse& collapse) {
  const nlohmann::json& state = reader.state().json();
  const std::string file = (reader.folder() / state_file).string();
  if (state.contains("guard")) guard.restore(state["guard"], file, "guard");
  if (state.contains("expert_collapse")) collapse.restore(state["expert_collapse"], file, "expert_collapse");
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

std::optional<CheckpointInfo> checkpoint_to_resume(const plan::RunSpec& run, Resume resume) {
  const auto folder = checkpoint_folder(run);
  auto latest = latest_checkpoint(folder);
  if (!latest && resume == Resume::must)
    throw ConfigError({.file = folder.string(), .allowed = "holds no complete checkpoint to resume from"});
  if (latest && resume == Resume::never)
    throw ConfigError({.file = run.file, .key = "folder", .value = run.folder.string(),
                       .allowed = fmt::format("holds a checkpoint of step {}: give --resume, or name another folder",
                                              latest->step)});
  return latest;
}

void check_resume(const plan::RunSpec& run, const CheckpointInfo& checkpoint, TrainingData& data) {
  const CheckpointReader reader(checkpoint.path);
  reader.check_model(run.model);
  const std::string file = (checkpoint.path / state_file).string();
  data.resume(reader.state().json(), file);
  frozen_in(reader);
  counts_of(reader);
  UpdateGuard guard(run.train, run.model.vocab_size);
  ExpertCollapse collapse(run.train.expert_collapse_steps, run.model);
  restore(reader, guard, collapse);
}

struct Trainer::State {
  const plan::RunSpec& run;
  const plan::Plan& plan;
  comm::Communicator& communicator;
  TrainerOptions options;
  Ownership ownership;

  std::unique_ptr<nn::Model> model;
  std::unique_ptr<parallel::GradientBuckets> buckets;
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<TrainingData> source;
  std::unique_ptr<parallel::StageRuntime> runtime;
  std::unique_ptr<Evaluation> evaluation;
  std::unique_ptr<CheckpointWriter> checkpoints;

  std::int64_t step = 0;  // the last one taken
  std::int64_t tokens_seen = 0;
  std::optional<double> eval_loss;  // of the last step taken, where it was evaluated
  double learning_rate_now = 0;
  // The next step begins with this sequence, whatever the batch. It goes on where the model goes back to a checkpoint.
  std::int64_t sequences_seen = 0;
  plan::FrozenParameters frozen;
  UpdateGuard guard;
  ExpertCollapse collapse;
  Judgement judgement;   // of the last step
  bool save_owed = false;  // a checkpoint was due when the update was skipped
  double bigram = -1;
  double highest_peak = 0;  // of the whole run: load, steps, evaluation, checkpoint copies

  State(const plan::RunSpec& r, const plan::Plan& p, comm::Communicator& c, TrainerOptions o)
      : run(r), plan(p), communicator(c), options(std::move(o)), ownership{p.mesh, options.rank},
        frozen(r.train.freeze), guard(r.train, r.model.vocab_size), collapse(r.train.expert_collapse_steps, r.model) {}

  void message(const std::string& text) const {
    if (options.on_message) options.on_message(text);
  }

  void stop_comes_after(const char* what) const {
    if (options.stop_comes_after) options.stop_comes_after(what);
  }

  void compare_hashes();
  void open(c10::intrusive_ptr<c10d::Store> store);
  void load();
  void take_up(const CheckpointReader& reader);
  parallel::StepHooks hooks();
  StepMetrics measure(const parallel::StepResult& result, double wall_s);
  bool evaluate(StepMetrics& metrics);
  void warn_of_collapse(const parallel::StepSums& sums);
  void rewind();
  [[noreturn]] void stop(const std::string& reason);
  void save();
  TrainOutcome train();
};

// A rank that would run another plan (another config file, another binary) is said before it can hang the rest.
void Trainer::State::compare_hashes() {
  const auto hash = static_cast<std::int64_t>(plan::hash(plan) ^ stream_key(0, plan::to_toml(run)));
  const auto all = comm::all_gather(communicator.group(plan::world_group), at::tensor({hash}, at::kLong).to(model->options().device),
                                    "compare plans");
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].item<std::int64_t>() != all[0].item<std::int64_t>())
      throw RuntimeFailure({.rank = static_cast<int>(rank), .operation = "compare plans",
                            .reason = "has another plan than rank 0: all ranks need the same config and program"});
}

void Trainer::State::open(c10::intrusive_ptr<c10d::Store> store) {
  source = open_training(run);
  model = parallel::make_model(run, plan, options.rank, options.local_rank);
  compare_hashes();
  buckets = parallel::make_buckets(run, plan, options.rank, *model);
  load();
  runtime = std::make_unique<parallel::StageRuntime>(run, plan, communicator, options.rank, *model, buckets.get(), hooks());
  if (auto sets = open_evaluation(run); !sets.empty()) {
    for (const std::string& text : clamped_sets(run, sets)) message(text);
    evaluation = std::make_unique<Evaluation>(
        run, std::move(sets), plan.mesh, communicator, options.rank, *model,
        EvaluationOptions{.stop_requested = options.stop_requested, .on_message = options.on_message});
  }
  std::shared_ptr<CommitBarrier> barrier;
  if (plan.mesh.world() == 1)
    barrier = std::make_shared<InProcessCommitBarrier>();
  else
    // A rank that lives may write for as long as its file system takes.
    barrier = std::make_shared<StoreCommitBarrier>(store, plan.mesh.world(), std::chrono::hours(24 * 365), options.in_vain);
  checkpoints = std::make_unique<CheckpointWriter>(
      CheckpointWriterOptions{.folder = checkpoint_folder(run), .rank = options.rank, .num_ranks = plan.mesh.world(),
                              .keep = {run.checkpoint.keep, run.checkpoint.keep_every, run.checkpoint.keep_best},
                              .writer = options.identity, .companions = run.folder / companion_folder,
                              .before_commit = options.check_folder, .model = run.model, .frozen = frozen},
      barrier);
}

// The newest checkpoint of the run, the weights that the config names, or drawn ones.
void Trainer::State::load() {
  const auto make_optimizer = [&] {
    optimizer = std::make_unique<AdamW>(
        model->parameters(), AdamWOptions{.beta1 = run.train.optimizer.beta1, .beta2 = run.train.optimizer.beta2,
                                          .eps = run.train.optimizer.eps, .weight_decay = run.train.optimizer.weight_decay,
                                          .decay_norms_and_biases = run.train.optimizer.decay_norms_and_biases,
                                          .frozen = frozen});
  };
  const auto latest = checkpoint_to_resume(run, options.resume);
  for (const CheckpointInfo& damaged : damaged_checkpoints(checkpoint_folder(run), latest ? latest->step : -1))
    message(fmt::format("{} is damaged: it has no {}, so the run goes on {}", damaged.path.string(), index_file,
                        latest ? fmt::format("from step {}", latest->step) : "without it"));
  if (latest) {
    const CheckpointReader reader(latest->path);
    make_optimizer();
    take_up(reader);
    if (const std::string note = reader.note(); !note.empty()) message(note);
    const TrainingData::Resumed resumed = source->resume(reader.state().json(), (latest->path / state_file).string());
    sequences_seen = resumed.sequences_seen;
    message(fmt::format("resumed from step {} ({}), at sequence {} of the data", step, latest->path.filename().string(),
                        sequences_seen));
    for (const std::string& text : resumed.messages) message(text);
    if (const auto thawed = frozen_in(reader).count_without(frozen, run.model); thawed > 0)
      message(fmt::format("{} parameters that were frozen are trained from here on: their optimizer state starts at zero", thawed));
    if (step >= run.train.steps) message(fmt::format("train.steps = {} is reached already", run.train.steps));
    return;
  }
  if (run.checkpoint.initial.empty()) {
    model->initialise(run.train.seed);
    make_optimizer();
  } else {
    make_optimizer();
    const auto weights = open_weights(run.checkpoint.initial, {.key = "checkpoint.initial"});
    start_from(*weights, *model, *optimizer);
    if (const std::string note = weights->note(); !note.empty()) message(note);
    message(fmt::format("weights from {}", run.checkpoint.initial));
  }
}

// Everything but the place in the data.
void Trainer::State::take_up(const CheckpointReader& reader) {
  train::resume(reader, *model, *optimizer);
  step = reader.step();
  const Counts counts = counts_of(reader);
  tokens_seen = counts.tokens_seen;
  optimizer->set_num_steps(counts.optimizer_steps);
  restore(reader, guard, collapse);
}

parallel::StepHooks Trainer::State::hooks() {
  parallel::StepHooks h;
  h.batch = [this](int mb) {
    return make_batch(*source, first_sequence(run.batch, plan.mesh.dp, sequences_seen, plan.mesh.dp_index(options.rank), mb),
                      run.batch.micro_batch, model->options().device);
  };
  h.owned_sum_of_squares = [this] { return sum_of_squares(model->parameters(), ownership, frozen); };
  h.stop_flag = [this] { return options.stop_requested && options.stop_requested() ? 1.0 : 0.0; };
  h.accepts_update = [this](const parallel::StepSums& sums, double norm) {
    learning_rate_now = learning_rate(run.train.schedule, run.train.optimizer.learning_rate, run.train.steps, step + 1);
    judgement = guard.judge({.loss = sums.mean_loss(), .has_targets = sums.weight > 0, .gradient_norm = norm});
    return judgement.verdict == Verdict::update;
  };
  h.optimizer = [this](const parallel::StepSums&, double norm) {
    optimizer->step(learning_rate_now, clip_factor(norm, run.train.optimizer.gradient_clip));
  };
  return h;
}

StepMetrics Trainer::State::measure(const parallel::StepResult& result, double wall_s) {
  // The slowest rank's time and the highest peak; outside of the plan, once a logged step.
  at::Tensor highest = at::tensor({wall_s, highest_peak}, at::kDouble)
                           .to(model->options().device);
  comm::all_reduce(communicator.group(plan::world_group), highest, comm::ReduceOp::max, "gather step time and memory");
  highest = highest.cpu();
  const double step_s = highest[0].item<double>();
  const double tokens = static_cast<double>(run.batch.global_batch * run.batch.sequence_length);
  StepMetrics m;
  m.step = step;
  m.loss = result.sums.mean_loss();
  m.grad_norm = result.gradient_norm;
  m.learning_rate = learning_rate_now;
  m.aux_loss = result.sums.mean_aux_loss();
  m.z_loss = result.sums.mean_z_loss();
  m.measured_step_s = step_s;
  m.predicted_step_s = options.predicted_step_s;
  m.tokens_per_s = tokens / step_s;
  m.model_tflops = m.tokens_per_s * model::training_flops_per_token(run.model, run.batch.sequence_length) / 1e12;
  m.peak_memory_bytes = highest[1].item<double>();
  m.tokens_seen = tokens_seen;
  m.tokens_by_set = source->position().tokens_of_sets(sequences_seen);
  for (double ratio : result.sums.load_ratio) m.expert_load_max_over_mean = std::max(m.expert_load_max_over_mean, ratio);
  if (run.model.num_moe_layers() > 0) {
    m.router_load = router_load(run.model.num_dense_layers,
                                gather_router_rows(result.sums, run.model, communicator.group(plan::world_group),
                                                   plan.mesh.dp_index(options.rank) == 0));
    if (step % steps_between_rows(run.model, run.train.log_every) != 0) m.router_load->rows.clear();
  }
  return m;
}

// True where a stop was heard meanwhile. An evaluation that it cut short has no result.
bool Trainer::State::evaluate(StepMetrics& metrics) {
  const EvaluationResult result = evaluation->run();
  if (!result.complete) {
    message(fmt::format("the evaluation of step {} was stopped: it has no result", step));
    return true;
  }
  metrics.eval_loss = result.loss;
  for (const SetLoss& set : result.sets) metrics.eval_loss_by_set[set.name] = set.loss;
  if (bigram >= 0) metrics.bigram_loss = bigram;
  return result.stop && step < run.train.steps;
}

void Trainer::State::warn_of_collapse(const parallel::StepSums& sums) {
  for (const std::string& text : collapse.watch(sums.load_ratio, sums.busiest_expert))
    message(fmt::format("warning: step {}: {}", step, text));
}

// The model goes back to the last good checkpoint, the place in the data does not. The checkpoint is rank 0's choice: what
// other hosts see of a shared folder may lag behind.
void Trainer::State::rewind() {
  checkpoints->went_back();
  const std::int64_t bad = step, first_bad = step - judgement.bad_steps + 1;
  const auto good = options.rank == 0 ? last_good_checkpoint(checkpoint_folder(run), first_bad) : std::nullopt;
  at::Tensor chosen = at::tensor({good ? good->step : std::int64_t{-1}}, at::kLong).to(model->options().device);
  comm::broadcast(communicator.group(plan::world_group), chosen, /*root=*/0, "choose a checkpoint to go back to");
  const auto target = chosen.item<std::int64_t>();
  if (target < 0) stop(judgement.reason + ", and there is nothing to go back to");
  take_up(CheckpointReader(checkpoint_folder(run) / checkpoint_name(target)));
  if (options.rank == 0) remove_checkpoints_behind(checkpoint_folder(run), target);
  save_owed = false;
  if (options.on_place) options.on_place(step);
  message(fmt::format("step {}: {}: the model goes back to step {}, the data of steps {} to {} is left out (rewind {} of {})", bad,
                      judgement.reason, target, target + 1, bad, guard.rewinds(), run.train.loss_spike.max_rewinds));
}

void Trainer::State::stop(const std::string& reason) {
  checkpoints->finish();  // what was begun before stays
  throw FinalFailure({.rank = options.rank, .operation = fmt::format("step {}", step), .group = "world",
                      .reason = fmt::format("{}; {}", reason,
                                            describe_good_checkpoint(checkpoint_folder(run), step - judgement.bad_steps + 1))});
}

void Trainer::State::save() {
  nlohmann::json state = {{"seed", run.train.seed}, {"tokens_seen", tokens_seen}, {"optimizer_steps", optimizer->num_steps()},
                          {"frozen", run.train.freeze}, {"guard", guard.state()}, {"expert_collapse", collapse.state()}};
  state.update(source->state(sequences_seen));
  if (eval_loss && std::isfinite(*eval_loss)) state[eval_loss_key] = *eval_loss;
  checkpoints->save(step, owned_tensors(*model, optimizer.get(), ownership), std::move(state));
  message(fmt::format("saving step {}", step));
}

TrainOutcome Trainer::State::train() {
  TrainOutcome outcome;
  if (options.rank == 0 && evaluation) outcome.bigram_loss = bigram = bigram_loss(run);
  if (options.on_place) options.on_place(step);
  while (step < run.train.steps && !outcome.stopped_early) {
    const auto start = Clock::now();
    const auto note_peak = [&] { highest_peak = std::max(highest_peak, static_cast<double>(nn::peak_tensor_bytes())); };
    note_peak();
    nn::reset_peak_tensor_bytes();
    // A save begins between steps: a copy that this step holds is there at its start.
    const double copy = static_cast<double>(checkpoints->snapshot_bytes());
    parallel::StepResult result = runtime->step();
    ++step;
    tokens_seen += run.batch.global_batch * run.batch.sequence_length;
    sequences_seen += run.batch.global_batch;
    note_peak();
    result.timeline.peak_memory_bytes = static_cast<double>(nn::peak_tensor_bytes());
    double& peak = copy > 0 ? outcome.checkpoint_peak_bytes : outcome.peak_bytes;
    peak = std::max(peak, result.timeline.peak_memory_bytes);
    if (options.on_step) options.on_step(step, result);
    warn_of_collapse(result.sums);
    if (judgement.verdict == Verdict::skip) message(fmt::format("step {}: {}; the update is skipped", step, judgement.reason));
    if (judgement.verdict == Verdict::stop || judgement.verdict == Verdict::rewind) {
      const StepMetrics metrics = measure(result, seconds_since(start));
      if (options.on_metrics) options.on_metrics(metrics);
      if (judgement.verdict == Verdict::stop) stop(judgement.reason);
      rewind();
      continue;
    }
    outcome.stopped_early = result.sums.stop > 0 && step < run.train.steps;

    bool last = step == run.train.steps || outcome.stopped_early;
    const bool evaluates =
        evaluation && !outcome.stopped_early && (last || (run.train.eval_every > 0 && step % run.train.eval_every == 0));
    eval_loss.reset();
    if (evaluates || last || step % run.train.log_every == 0) {
      StepMetrics metrics = measure(result, seconds_since(start));
      if (evaluates) {
        stop_comes_after("this part of the evaluation");
        if (evaluate(metrics)) last = outcome.stopped_early = true;
        stop_comes_after("this step");
      }
      if (metrics.eval_loss) {
        outcome.eval_loss = eval_loss = metrics.eval_loss;
        outcome.eval_step = step;
      }
      if (options.on_metrics) options.on_metrics(metrics);
    }
    checkpoints->check();
    const bool due = run.checkpoint.every > 0 && step % run.checkpoint.every == 0;
    const bool wanted = due || save_owed || (last && (run.checkpoint.at_end || outcome.stopped_early));
    // Weights that give no usable gradient may be broken: nothing is saved of them before a step is good again.
    save_owed = wanted && judgement.verdict == Verdict::skip;
    if (save_owed && (due || last)) message(fmt::format("step {} is not saved: its update was skipped", step));
    if (wanted && !save_owed) {
      save();
      outcome.checkpoint_copy_bytes = std::max(outcome.checkpoint_copy_bytes, checkpoints->last_copy_bytes());
    }
  }
  if (save_owed) stop(fmt::format("the run ends with a step whose update was skipped and saves nothing of it: {}", judgement.reason));
  checkpoints->finish();
  outcome.last_step = step;
  return outcome;
}

Trainer::Trainer(const plan::RunSpec& run, const plan::Plan& plan, comm::Communicator& communicator,
                 c10::intrusive_ptr<c10d::Store> store, TrainerOptions options)
    : state_(std::make_unique<State>(run, plan, communicator, std::move(options))) {
  state_->open(std::move(store));
}
Trainer::~Trainer() = default;

TrainOutcome Trainer::run() { return state_->train(); }

}  // namespace trireme::train
