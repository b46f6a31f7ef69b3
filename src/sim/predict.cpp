#include <algorithm>

#include "model/parameters.h"
#include "sim/memory_cost.h"
#include "sim/price.h"

namespace trireme::sim {

SimulateOptions simulate_options(const plan::RunSpec& run, const platform::PlatformSpec& platform, const plan::Mesh& mesh) {
  SimulateOptions out;
  out.threads = std::max(1, threads_of_rank(run, platform, mesh.world()));
  out.ranks_per_host = platform.host.ranks;
  if (platform.device.kind != "cpu") return out;  // devices of their own: nothing is shared
  out.cores = platform.host.cores;
  out.communication_core_share = platform.framework.communication_core_share;
  for (const platform::BusyTable& table : platform.host.busy)
    if (!out.busy || table.threads == out.threads) out.busy = &table;
  return out;
}

Predicted predict(const plan::Plan& plan, const plan::RunSpec& run, const platform::PlatformSpec& platform) {
  Predicted out{.priced = price(plan, run, platform)};
  out.result = simulate(plan, out.priced.costs, simulate_options(run, platform, plan.mesh));
  plan::Prediction& p = out.prediction;
  p.step_s = out.result.step_s;
  const double tokens = static_cast<double>(run.batch.global_batch) * run.batch.sequence_length;
  p.tokens_per_s = p.step_s > 0 ? tokens / p.step_s : 0;
  // A forward-only step does a third of the work: one of the three matmuls of a training step.
  p.model_flops_per_step = tokens * model::training_flops_per_token(run.model, run.batch.sequence_length) /
                           (plan.schedule.forward_only ? 3 : 1);
  p.peak_flops_per_s = platform::DeviceCurves(platform.device, run.device.dtype, out.priced.threads).peak().value;
  if (platform.device.kind == "cpu" && plan.mesh.world() > 0) {
    // Ranks share their host's peak.
    const int ranks = platform.host.ranks > 0 ? std::min(platform.host.ranks, plan.mesh.world()) : plan.mesh.world();
    p.peak_flops_per_s /= ranks;
  }
  p.platform = platform.name;
  p.platform_measured = out.priced.measured;
  p.baseline_bytes = platform.framework.baseline_bytes;
  p.ranks = timelines(plan, out.result);
  p.memory = out.result.memory;
  p.constant = out.priced.constant;
  const bool saves = !plan.schedule.forward_only && run.checkpoint.every > 0;
  for (const plan::StagePlan& stage : plan.stages)
    p.checkpoint_copy_bytes.push_back(saves ? checkpoint_copy_bytes(run, plan.mesh, stage) : 0);
  return out;
}

}  // namespace trireme::sim
