#include "trireme/rehearsal_plan.h"

#include "trireme/platform_choice.h"

namespace trireme::apps {

RehearsalPlan make_rehearsal_plan(const plan::RunSpec& run, const plan::Mesh& mesh, const RehearsalQuestion& question,
                                  const Context& context) {
  const ChosenPlatform chosen = choose_platform(question.platform, question.stack, run, context);
  RehearsalPlan out{.planned = make_run_plan(run, mesh, chosen.spec, {.keep = {}, .software = chosen.software})};
  RunPlan& p = out.planned;
  p.assumptions.insert(p.assumptions.begin(), chosen.assumptions.begin(), chosen.assumptions.end());
  const auto rates = sim::rates_of_run(p.run, p.plan.mesh, chosen.spec, chosen.software);
  out.load = rehearsal_load(question.load, p.run, p.plan.mesh, *rates);
  if (!out.load.words.empty()) {
    // The same rows as the rehearsal's. A plan's own prediction is the middle one of several draws.
    std::vector<plan::PricedPattern> patterns = std::move(p.predicted.prediction.patterns);
    p.predicted = sim::predict(p.plan, p.run, chosen.spec, sim::sampled_rows(p.plan, p.run, out.load.load), chosen.software);
    p.predicted.prediction.patterns = std::move(patterns);
  }
  out.rehearsal = sim::plan_rehearsal(p.plan, p.run, chosen.spec, chosen.software, p.predicted);
  return out;
}

}  // namespace trireme::apps
