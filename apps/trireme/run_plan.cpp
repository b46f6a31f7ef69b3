#include "trireme/run_plan.h"

#include "base/errors.h"
#include "sim/exchange_choice.h"

namespace trireme::apps {

RunPlan make_run_plan(const plan::RunSpec& run, plan::Mesh mesh, const platform::PlatformSpec& platform,
                      const RunPlanOptions& options) {
  RunPlan out{.run = run};
  if (mesh.ranks_of_host.empty()) mesh.ranks_of_host = plan::even_hosts(mesh.world(), platform.host.ranks);
  mesh.hosts_per_group = platform.host.nodes_per_group;
  std::vector<plan::PricedPattern> patterns;
  if (run.layout.all_to_all == "auto") {
    const sim::Choice choice = sim::choose_exchange(run, mesh, platform);
    for (const sim::Candidate& c : choice.ranked) patterns.push_back({c.pattern, c.seconds});
    out.run.layout.all_to_all = !options.keep.empty() ? options.keep : choice.pick().pattern;
  }
  out.plan = plan::make_training_plan(out.run, mesh);
  for (const std::string& problem : plan::problems(out.plan)) TRIREME_CHECK(false, "{}", problem);
  out.predicted = sim::predict(out.plan, out.run, platform);
  out.predicted.prediction.patterns = std::move(patterns);
  return out;
}

}  // namespace trireme::apps
