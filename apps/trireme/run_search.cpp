#include "trireme/run_search.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/plan_report.h"
#include "search/layouts/share_out.h"
#include "trireme/run_plan.h"

namespace trireme::apps {

std::vector<PricedRun> price_runs(const std::vector<plan::RunSpec>& runs, int num_ranks,
                                  const ChosenPlatform& platform, int threads) {
  std::vector<PricedRun> out(runs.size());
  const std::size_t used = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  search::share_out(used, runs.size(), 1, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const RunPlan planned = make_run_plan(runs[i], plan::resolve_mesh(runs[i], num_ranks), platform.spec,
                                            {.keep = {}, .software = platform.software});
      const plan::Prediction& p = planned.predicted.prediction;
      out[i] = {.run = planned.run, .step_s = p.step_s, .tokens_per_s = p.tokens_per_s};
      for (const plan::MemoryCurve& m : p.memory) out[i].peak_bytes = std::max(out[i].peak_bytes, m.peak_bytes);
      out[i].misfits =
          report::infeasibilities({planned.run, planned.plan, planned.predicted.priced.costs, p, platform.spec});
    }
  });
  std::stable_sort(out.begin(), out.end(), [](const PricedRun& a, const PricedRun& b) {
    return std::pair(!a.misfits.empty(), a.step_s) < std::pair(!b.misfits.empty(), b.step_s);
  });
  return out;
}

std::string run_line(const plan::RunSpec& run) {
  const plan::LayoutSpec& l = run.layout;
  std::string out = fmt::format("pp {}, ep {}, dp {}, micro-batch {}", l.pp, l.ep, l.dp, run.batch.micro_batch);
  if (l.pp > 1) out += ", " + l.schedule;
  if (!l.stage_layers.empty()) out += fmt::format(", layers {}", fmt::join(l.stage_layers, "+"));
  if (l.ep > 1) out += fmt::format(", {} all-to-all", l.all_to_all);
  return out;
}

}  // namespace trireme::apps
