#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "model/parameters.h"
#include "sim/actual_load.h"
#include "sim/core_sharing.h"
#include "sim/predicted_phases.h"
#include "sim/memory_cost.h"
#include "sim/price.h"
#include "sim/sampled_load.h"

namespace trireme::sim {

SimulateOptions simulate_options(const plan::RunSpec& run, const platform::PlatformSpec& platform, const plan::Mesh& mesh,
                                 const Rates& rates) {
  SimulateOptions out;
  out.threads = std::max(1, threads_of_rank(run, platform, mesh.world()));
  out.ranks_per_host = ranks_of_machine(platform.host, mesh.world());
  if (platform.device.kind != "cpu") {  // devices of their own: nothing is shared
    out.overlap = rates.fixed().overlap;
    return out;
  }
  out.cores = platform.host.cores;
  out.communication_core_share = platform.framework.communication_core_share;
  out.busy = busy_table(platform.host, out.threads);
  out.every_rank = true;
  if (!platform.host.noise.factor.empty()) out.noise = &platform.host.noise;
  if (out.noise && out.busy) out.noise_stretch = noise_stretch(*out.busy, *out.noise, out.ranks_per_host);
  return out;
}

namespace {

// `load_of`: where expert rows are drawn, the scale of all ranks for a seed.
SimResult median_sample(const plan::Plan& plan, const plan::Costs& costs, SimulateOptions options,
                        const std::function<std::vector<std::vector<double>>(std::uint64_t)>& load_of) {
  const int samples = options.noise || load_of ? num_noise_samples : 1;
  std::vector<SimResult> results;
  for (int i = 0; i < samples; ++i) {
    options.seed = static_cast<std::uint64_t>(i);
    if (load_of) options.scale = load_of(options.seed);
    results.push_back(simulate(plan, costs, options));
  }
  const auto middle = results.begin() + samples / 2;
  std::nth_element(results.begin(), middle, results.end(), [](const auto& a, const auto& b) { return a.step_s < b.step_s; });
  return std::move(*middle);
}

// Of each stage the curve of its rank with the highest peak.
std::vector<plan::MemoryCurve> memory_of_stages(const plan::Mesh& mesh, const SimResult& result) {
  if (!result.every_rank) return result.memory;
  std::vector<plan::MemoryCurve> out;
  for (int stage = 0; stage < mesh.pp; ++stage) {
    int highest = mesh.rank(stage, 0);
    for (int place = 1; place < mesh.stage_ranks(); ++place)
      if (const int rank = mesh.rank(stage, place); result.memory[rank].peak_bytes > result.memory[highest].peak_bytes) highest = rank;
    out.push_back(result.memory[highest]);
  }
  return out;
}

}  // namespace

Predicted predict(const plan::Plan& plan, const plan::RunSpec& run, const platform::PlatformSpec& platform,
                  const std::vector<plan::MeasuredRank>& measured, const Software& software) {
  Predicted out{.priced = price(plan, run, platform, software)};
  const auto rates = rates_of_run(run, plan.mesh, platform, software);
  SimulateOptions options = simulate_options(run, platform, plan.mesh, *rates);
  if (!measured.empty()) {
    options.every_rank = true;
    options.scale = load_scale(plan, run, *rates, out.priced.threads, measured);
  }
  if (options.busy && options.busy->threads != options.threads)
    out.priced.notes.push_back(fmt::format("busy ranks: measured with {} threads a rank, this run has {}: `trireme probe` with its ranks "
                                           "tells how they slow one another down",
                                           options.busy->threads, options.threads));
  std::function<std::vector<std::vector<double>>(std::uint64_t)> load_of;
  const double group_tokens = static_cast<double>(run.batch.micro_batch * run.batch.sequence_length * plan.mesh.ep);
  if (const double cv = measured.empty() && options.every_rank && plan.mesh.ep > 1 ? rates->load_cv(group_tokens) : 0; cv > 0) {
    load_of = [&, cv](std::uint64_t seed) {
      return load_scale(plan, run, *rates, out.priced.threads, sampled_rows(plan, run, {.cv = cv, .seed = seed, .counts = {}}));
    };
    out.priced.notes.push_back(fmt::format("experts: rows vary by {:.0f} % from one to the next, as the probe's routers had it to begin with",
                                           100 * cv));
  }
  out.result = median_sample(plan, out.priced.costs, options, load_of);
  plan::Prediction& p = out.prediction;
  p.step_s = out.result.step_s;
  const double tokens = static_cast<double>(run.batch.global_batch) * run.batch.sequence_length;
  p.tokens_per_s = p.step_s > 0 ? tokens / p.step_s : 0;
  // A forward-only step does a third of the work: one of the three matmuls of a training step.
  p.model_flops_per_step = tokens * model::training_flops_per_token(run.model, run.batch.sequence_length) /
                           (plan.schedule.forward_only ? 3 : 1);
  p.peak_flops_per_s = rates->fixed().peak_flops_per_s;
  if (platform.device.kind == "cpu" && plan.mesh.world() > 0) {
    // Ranks share their host's peak.
    p.peak_flops_per_s /= ranks_of_machine(platform.host, plan.mesh.world());
  }
  p.platform = platform.name;
  p.platform_measured = out.priced.measured;
  p.baseline_bytes = platform.framework.baseline_bytes;
  p.ranks = timelines(plan, out.result);
  for (plan::RankTimeline& rank : p.ranks) rank.phases = predicted_phases(plan, out.priced.costs, rank);
  p.memory = memory_of_stages(plan.mesh, out.result);
  p.constant = out.priced.constant;
  const bool saves = !plan.schedule.forward_only && run.checkpoint.every > 0;
  for (const plan::StagePlan& stage : plan.stages)
    p.checkpoint_copy_bytes.push_back(saves ? checkpoint_copy_bytes(run, plan.mesh, stage) : 0);
  return out;
}

}  // namespace trireme::sim
