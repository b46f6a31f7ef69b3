#include "trireme/start_checks.h"

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "base/log.h"
#include "trireme/platform_choice.h"
#include "trireme/run_plan.h"

namespace trireme::apps {

void check_device(const plan::RunSpec& run, int local_ranks) {
  if (run.device.device == "cpu") return;
  const auto fail = [&](std::string allowed) {
    throw ConfigError({.file = run.file, .key = "device.device", .value = run.device.device, .allowed = std::move(allowed)});
  };
  const auto& hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCUDART())
    fail("this program is built with a libtorch for CPUs: set device.device = \"cpu\", or build it with a libtorch for CUDA or ROCm "
         "(TRIREME_TORCH)");
  const int devices = hooks.hasCUDA() ? hooks.getNumGPUs() : 0;
  if (devices == 0) fail("this host shows none (is there a driver, and does CUDA_VISIBLE_DEVICES allow one?): set \"cpu\"");
  if (devices < local_ranks) fail(fmt::format("this host shows {} for its {} ranks: each needs one of its own", devices, local_ranks));
}

namespace {

void refuse_or_warn(const RankOptions& options, const std::optional<std::string>& shortage) {
  if (!shortage) return;
  if (!options.force) throw memory_error(options.run, *shortage);
  spdlog::warn("memory: {}. Started all the same (--force): the system may end it.", *shortage);
}

}  // namespace

void check_memory(const RankOptions& options, int num_ranks) {
  plan::RunSpec run = options.run;
  // What is exchanged is held whichever pattern carries it: no need to look for the fastest.
  if (run.layout.all_to_all == "auto") run.layout.all_to_all = "flat";
  const platform::PlatformSpec platform = choose_platform(options.platform, run, /*silent=*/true);
  const RunPlan planned = make_run_plan(run, plan::resolve_mesh(run, num_ranks), platform);
  refuse_or_warn(options, memory_shortage(memory_need(run, planned.predicted.prediction, platform), planned.plan.mesh,
                                          {.first = 0, .count = num_ranks}, platform::measure_host_memory()));
}

void agree_that_it_fits(const RankOptions& options, const MemoryNeed& need, const comm::LaunchEnv& env,
                        comm::Communicator& communicator) {
  DoesNotFit found;
  try {
    if (env.local_rank == 0)
      refuse_or_warn(options, memory_shortage(need, plan::resolve_mesh(options.run, env.world),
                                              {.first = env.rank, .count = env.local_world, .started = true},
                                              platform::measure_host_memory()));
  } catch (const ConfigError& error) {
    found.here = error;
  }
  const at::Device device = options.run.device.device == "cpu" ? at::Device(at::kCPU) : at::Device(at::kCUDA, env.local_rank);
  at::Tensor refused = at::tensor({found.here ? 1.0 : 0.0}, at::kDouble).to(device);
  comm::all_reduce(communicator.group(plan::world_group), refused, comm::ReduceOp::max, "compare memory");
  if (refused.cpu().item<double>() > 0) throw found;
}

}  // namespace trireme::apps
