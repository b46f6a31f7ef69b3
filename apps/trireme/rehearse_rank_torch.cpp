#include "trireme/rehearse_rank.h"

#include <cstdio>

#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/rng.h"
#include "comm/error_text.h"
#include "comm/group.h"
#include "model/untrainable.h"
#include "nn/counting_allocator.h"
#include "parallel/setup.h"
#include "plan/run_warnings.h"
#include "report/html_page.h"
#include "report/rehearsal_report.h"
#include "report/trace.h"
#include "trireme/from_rank_zero.h"
#include "trireme/rank_life.h"
#include "trireme/rehearsal_plan.h"

namespace trireme::apps {
namespace {

// On rank 0, what the end is made of.
struct Rehearsed {
  RehearsalPlan plan;
  std::vector<plan::MeasuredRank> measured;
  double buffer_bytes = 0;
};

// What every rank needs to know of the rehearsal.
struct Part {
  plan::RunSpec run;  // with the pattern that was chosen
  plan::Plan plan;
  parallel::EmulatedWork work;
  double predicted_step_s = 0;
};

std::string waits_key(int rank) { return fmt::format("rehearsal/waits/{}", rank); }

std::string digest(const plan::RunSpec& run) { return fmt::format("{:016x}", stream_key(0, plan::to_toml(run))); }

// Where rank 0's file says something else the messages would not fit.
void check_same_run(const std::string& theirs, const plan::RunSpec& run, int rank) {
  if (theirs == digest(run)) return;
  throw RuntimeFailure({.rank = rank, .operation = "compare runs", .reason = "has another run than rank 0: all ranks need the same file and program"});
}

Part agree(const RehearseOptions& o, const plan::RunSpec& run, plan::Mesh mesh, RankLife& life, comm::Communicator& communicator,
           std::optional<Rehearsed>& result, const Context& context) {
  const comm::LaunchEnv& env = life.env();
  // Ranks that this program has started stand for those of the platform's hosts.
  if (env.source == comm::LaunchSource::torchrun || env.source == comm::LaunchSource::slurm)
    mesh.ranks_of_host = ranks_of_hosts(run, communicator);
  const nlohmann::json agreed = from_rank_zero("rehearsal", env.rank, communicator, life.store(), [&] {
    result = Rehearsed{.plan = make_rehearsal_plan(run, mesh, {o.platform, o.stack, o.load}, context)};
    const RehearsalPlan& p = result->plan;
    for (int rank = 0; rank < mesh.world(); ++rank)
      life.store().set(waits_key(rank), nlohmann::json(p.rehearsal.wait_s[static_cast<std::size_t>(rank)]).dump());
    return nlohmann::json{{"run", digest(run)}, {"plan", p.planned.plan}, {"load", p.load.load},
                          {"step_s", p.rehearsal.prediction.step_s}};
  });
  check_same_run(agreed.at("run").get<std::string>(), run, env.rank);
  Part out{.run = run, .plan = agreed.at("plan").get<plan::Plan>(), .work = {}, .predicted_step_s = agreed.at("step_s").get<double>()};
  out.run.layout.all_to_all = out.plan.all_to_all;
  out.work.wait_s = nlohmann::json::parse(life.store().get_to_str(waits_key(env.rank))).get<std::vector<double>>();
  const std::int64_t tokens = run.batch.micro_batch * run.batch.sequence_length;
  out.work.rows_E = [load = agreed.at("load").get<sim::RoutedLoad>(), moe = run.model.moe, tokens,
                     group = sim::expert_group(out.plan.mesh, env.rank)](int mb, int layer) {
    return sim::whole_rows(sim::expert_weights(load, static_cast<int>(moe.num_experts), group, layer, mb), tokens, moe.router.top_k);
  };
  return out;
}

plan::MeasuredRank rehearse(const Part& part, int steps, int rank, comm::Communicator& communicator) {
  parallel::StageRuntime runtime(part.run, part.plan, communicator, rank, part.work);
  plan::MeasuredSteps measured(rank, steps);
  for (int step = 0; step <= steps; ++step) {
    const parallel::StepResult result = runtime.step();
    // The first one meets peers and makes buffers.
    if (step > 0) measured.add(step, result.timeline.step_s, result.timeline.spans, result.expert_rows, result.timeline.phases);
    if (rank > 0) continue;
    fmt::print(stderr, "rehearsal: {}: {:.4f} s, predicted {:.4f} s (emulated: compute is waited for)\n",
               step == 0 ? "a step that is not measured" : fmt::format("step {} of {}", step, steps), result.timeline.step_s,
               part.predicted_step_s);
    std::fflush(stderr);
  }
  return measured.summary(0);
}

// What every rank has measured comes to rank 0.
void gather(const plan::MeasuredRank& own, int world, RankLife& life, std::optional<Rehearsed>& result) {
  const auto key = [](int rank) { return fmt::format("rehearsal/measured/{}", rank); };
  try {
    life.store().set(key(own.rank), nlohmann::json{{"measured", own}, {"buffer_bytes", nn::peak_tensor_bytes()}}.dump());
    for (int rank = 0; own.rank == 0 && rank < world; ++rank) {
      const nlohmann::json j = nlohmann::json::parse(life.store().get_to_str(key(rank)));
      result->measured.push_back(j.at("measured").get<plan::MeasuredRank>());
      result->buffer_bytes = std::max(result->buffer_bytes, j.at("buffer_bytes").get<double>());
    }
  } catch (const std::exception& error) {
    throw RuntimeFailure({.operation = "gather what was rehearsed", .group = "world", .reason = comm::error_text(error)});
  }
}

int rehearse_among(RankLife& life, const RehearseOptions& o, const plan::RunSpec& run, std::optional<Rehearsed>& result,
                   const Context& context) {
  const plan::Mesh mesh = plan::resolve_mesh(run, life.env().world);
  life.find_local_ranks();
  comm::Communicator& communicator = life.meet(mesh, "cpu", /*threads=*/1);
  const Part part = agree(o, run, mesh, life, communicator, result, context);
  gather(rehearse(part, o.steps, life.env().rank, communicator), mesh.world(), life, result);
  return exit_ok;
}

void print(const RehearseOptions& o, Rehearsed& r) {
  const RunPlan& planned = r.plan.planned;
  report::RunReport compared = report::compare(planned.plan, r.plan.rehearsal.prediction, std::move(r.measured));
  compared.facts = report::plan_facts(&planned.run.model, planned.plan, r.plan.rehearsal.prediction, report::now_text());
  compared.facts.push_back({"rehearsal", report::emulated_note});
  const report::RehearsalView view{compared, planned.predicted.prediction.step_s, r.plan.load.words, r.buffer_bytes};
  const std::string text = report::rehearsal_text(view);
  std::fputs((o.json ? json_text(report::rehearsal_json(view), 1) + "\n" : text).c_str(), stdout);
  const auto timelines = compared.measured_timelines();
  if (!o.trace.empty())
    write_file_atomically(o.trace, report::trace_json(compared.plan, {{"predicted", compared.prediction.ranks}, {"rehearsed (emulated compute)", timelines}}));
  if (!o.html.empty())
    write_file_atomically(o.html, report::html_page({.title = planned.run.name + ", rehearsed", .text = text, .plan = compared.plan,
                                                     .predicted = compared.prediction, .measured = timelines, .report = &compared,
                                                     .facts = compared.facts, .measured_as = report::rehearsed}));
}

}  // namespace

plan::RunSpec check_rehearsal(const RehearseOptions& options, int num_ranks) {
  plan::RunSpec run = plan::load_run(options.config, options.set);
  model::refuse_untrainable(run.model, run.file);
  plan::resolve_mesh(run, num_ranks);
  return run;
}

int rehearse_rank(const RehearseOptions& options, const plan::RunSpec& run, const comm::LaunchEnv& launched_as, const Context& context) {
  RankLife life(launched_as, std::chrono::milliseconds(static_cast<std::int64_t>(run.timeout_s * 1e3)), "rehearse");
  std::optional<Rehearsed> result;
  const int code = life.run([&] {
    if (launched_as.rank == 0) {
      for (const std::string& file : {options.html, options.trace})
        if (!file.empty()) check_writable(file);
      for (const std::string& warning : plan::warnings(run)) spdlog::warn("{}", warning);
      if (run.device.device != "cpu")
        spdlog::warn("device.device = {}: this rehearsal's messages go from host memory to host memory, not between devices", run.device.device);
    }
    try {
      return rehearse_among(life, options, run, result, context);
    } catch (const RankZeroRefused&) {
      return exit_bad_input;
    }
  });
  if (code == exit_ok && launched_as.rank == 0) print(options, *result);
  return code;
}

}  // namespace trireme::apps
