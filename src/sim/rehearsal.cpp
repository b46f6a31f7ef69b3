#include "sim/rehearsal.h"

#include "sim/predicted_phases.h"

namespace trireme::sim {

namespace {

bool is_waited_for(const plan::Action& a) {
  return a.lane == plan::Lane::compute || a.lane == plan::Lane::copy || a.lane == plan::Lane::copy_in;
}

// Of one list of actions, by the spans that it had.
std::vector<double> waits(const std::vector<plan::Action>& actions, const std::vector<plan::Span>& spans) {
  std::vector<double> out(actions.size(), 0);
  for (const plan::Action& a : actions) {
    const plan::Span& span = spans.at(static_cast<std::size_t>(a.id));
    if (is_waited_for(a)) out[static_cast<std::size_t>(a.id)] = span.end_s - span.start_s;
  }
  return out;
}

}  // namespace

Rehearsal plan_rehearsal(const plan::Plan& plan, const plan::RunSpec& run, const platform::PlatformSpec& platform,
                         const Software& software, const Predicted& predicted) {
  const auto stage_of = [&](std::size_t list) -> std::size_t {
    return predicted.result.every_rank ? static_cast<std::size_t>(plan.mesh.pp_index(static_cast<int>(list))) : list;
  };
  const auto rates = rates_of_run(run, plan.mesh, platform, software);
  SimulateOptions options = simulate_options(run, platform, plan.mesh, *rates);
  options.every_rank = predicted.result.every_rank;
  options.noise = nullptr;  // it is in the spans
  options.compute_waits = true;
  options.memory = false;
  // The lengths as factors of the prices: what has none has no length.
  for (std::size_t l = 0; l < predicted.result.spans.size(); ++l) {
    const auto& actions = plan.stages.at(stage_of(l)).actions;
    const auto& price = predicted.priced.costs.stages.at(stage_of(l)).action_s;
    const std::vector<double> wait = waits(actions, predicted.result.spans[l]);
    std::vector<double>& scale = options.scale.emplace_back(actions.size(), 1.0);
    for (const plan::Action& a : actions)
      if (const auto i = static_cast<std::size_t>(a.id); is_waited_for(a)) scale[i] = price[i] > 0 ? wait[i] / price[i] : 0;
  }
  const SimResult result = simulate(plan, predicted.priced.costs, options);

  Rehearsal out{.wait_s = {}, .prediction = predicted.prediction};
  for (int rank = 0; rank < plan.mesh.world(); ++rank) {
    const auto stage = static_cast<std::size_t>(plan.mesh.pp_index(rank));
    const std::size_t list = predicted.result.every_rank ? static_cast<std::size_t>(rank) : stage;
    out.wait_s.push_back(waits(plan.stages.at(stage).actions, predicted.result.spans.at(list)));
  }
  plan::Prediction& p = out.prediction;
  p.tokens_per_s *= result.step_s > 0 ? p.step_s / result.step_s : 0;
  p.step_s = result.step_s;
  std::vector<plan::RankTimeline> ranks = timelines(plan, result);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].peak_memory_bytes = p.ranks.at(r).peak_memory_bytes;
    ranks[r].phases = predicted_phases(plan, predicted.priced.costs, ranks[r]);
  }
  p.ranks = std::move(ranks);
  return out;
}

}  // namespace trireme::sim
