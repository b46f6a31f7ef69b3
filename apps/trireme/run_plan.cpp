#include "trireme/run_plan.h"

#include <cmath>

#include "base/errors.h"
#include "sim/exchange_choice.h"
#include "sim/memory_cost.h"

namespace trireme::apps {

namespace {

struct Hosts {
  int ranks = 0, per_group = 0;  // 0: all on one; no such level
};

Hosts hosts_of(const platform::PlatformSpec& platform) {
  if (sim::has_curves(platform)) return {platform.host.ranks, platform.host.nodes_per_group};
  const auto rates = sim::make_rates(platform, {}, {.dtype = DType::bfloat16});
  const auto whole = [](double devices) { return std::isfinite(devices) ? static_cast<int>(devices) : 0; };
  Hosts out{.ranks = whole(rates->node().devices)};
  if (const sim::UnitLevel* beyond = &rates->node() + 1; out.ranks > 0 && beyond < rates->units().data() + rates->units().size())
    out.per_group = whole(beyond->devices) / out.ranks;
  return out;
}

}  // namespace

RunPlan make_run_plan(const plan::RunSpec& run, plan::Mesh mesh, const platform::PlatformSpec& platform,
                      const RunPlanOptions& options) {
  RunPlan out{.run = run};
  const Hosts hosts = hosts_of(platform);
  if (mesh.ranks_of_host.empty()) mesh.ranks_of_host = plan::even_hosts(mesh.world(), hosts.ranks);
  mesh.hosts_per_group = hosts.per_group;
  std::vector<plan::PricedPattern> patterns;
  if (run.layout.all_to_all == "auto") {
    const sim::Choice choice = sim::choose_exchange(run, mesh, *sim::rates_of_run(run, mesh, platform, options.software));
    for (const sim::Candidate& c : choice.ranked) patterns.push_back({c.pattern, c.seconds});
    out.run.layout.all_to_all = !options.keep.empty() ? options.keep : choice.pick().pattern;
  }
  out.plan = plan::make_training_plan(out.run, mesh);
  for (const std::string& problem : plan::problems(out.plan)) {
    if (!run.layout.schedule_file.path.empty())
      throw ConfigError({.file = run.layout.schedule_file.path, .key = "schedule", .allowed = problem});
    TRIREME_CHECK(false, "{}", problem);
  }
  out.predicted = sim::predict(out.plan, out.run, platform, {}, options.software);
  out.predicted.prediction.patterns = std::move(patterns);
  out.stack = options.software.name;
  out.assumptions.push_back(fmt::format("the kernels of trireme ({}): what its segments compute and keep",
                                        sim::runs_fused(run) ? "trireme" : "trireme_device"));
  return out;
}

}  // namespace trireme::apps
