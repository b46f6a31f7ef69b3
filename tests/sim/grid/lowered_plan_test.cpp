// A lowered plan of several chunks a stage takes as long in the simulator of actions as its grid does.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/pipeline/generators.h"
#include "sim/grid/simulate_grid.h"
#include "sim/simulate.h"

namespace trireme::sim {
namespace {

plan::RunSpec run_of(const std::string& schedule, int layers, int micro_batches) {
  plan::RunSpec run;
  run.model = {.vocab_size = 99,
               .hidden = 32,
               .num_layers = layers,
               .num_dense_layers = 1,
               .dense_ffn = 48,
               .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8},
               .moe = {.num_experts = 8, .expert_ffn = 16, .router = {.top_k = 2}}};
  run.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = micro_batches};
  run.layout.schedule = schedule;
  return run;
}

// By what an action does; all else is free.
template <class Seconds>
plan::Costs costs_of(const plan::Plan& plan, const Seconds& seconds) {
  plan::Costs out;
  for (const plan::StagePlan& stage : plan.stages) {
    plan::StageCosts& costs = out.stages.emplace_back();
    costs.buffer_bytes.assign(stage.buffers.size(), 0);
    costs.action_workspace_bytes.assign(stage.actions.size(), 0);
    for (const plan::Action& a : stage.actions) costs.action_s.push_back(seconds(a));
  }
  return out;
}

// A forward segment 1 s, its input gradient 1.5 s, its weight gradient 0.75 s: chunks are unequal, by their segments.
// Joined slots are one unit in a grid, which waits for both inputs; as segments one after the other they may begin
// earlier.
TEST(LoweredPlan, TakesAsLongAsItsGrid) {
  for (const std::string& schedule : plan::schedule_names())
    for (const int p : {1, 2, 3})
      for (const int chunks : {1, 2, 3}) {
        if (!plan::can_have_chunks(schedule, chunks) || (chunks == 1 && schedule == "interleaved_1f1b")) continue;
        plan::RunSpec run = run_of(schedule, 7, 12);
        run.layout.virtual_stages = chunks;
        const plan::Plan lowered = plan::make_training_plan(run, {p, 1, 1});
        const int of_stage = lowered.schedule.num_chunks;
        const plan::Costs costs = costs_of(lowered, [](const plan::Action& a) {
          if (a.kind == plan::ActionKind::forward) return 1.0;
          if (a.kind == plan::ActionKind::input_gradient) return 1.5;
          if (a.kind == plan::ActionKind::weight_gradient) return 0.75;
          if (a.kind == plan::ActionKind::backward)
            return a.segment == plan::Segment::combine ? 1.5 : 2.25;  // no weights
          return 0.0;
        });
        GridCosts grid;
        for (auto* table : {&grid.forward_s, &grid.backward_s, &grid.input_gradient_s, &grid.weight_gradient_s})
          table->assign(static_cast<std::size_t>(p) * of_stage, 0);
        for (int s = 0; s < p; ++s)
          for (const plan::Action& a : lowered.stages[s].actions) {
            if (a.kind != plan::ActionKind::forward || a.mb != 0) continue;
            const std::size_t cell = static_cast<std::size_t>(s) * of_stage + a.chunk;
            const double weight = a.segment == plan::Segment::combine ? 0 : 0.75;
            grid.forward_s[cell] += 1, grid.input_gradient_s[cell] += 1.5;
            grid.weight_gradient_s[cell] += weight, grid.backward_s[cell] += 1.5 + weight;
          }
        const double step = simulate(lowered, costs).step_s;
        const GridResult whole = simulate_grid(compile(lowered.schedule), grid);
        const bool joins = schedule == "merged_1f1b" || schedule == "dualpipe_v";
        if (joins)
          EXPECT_LE(step, whole.makespan_s + 1e-9) << to_text(lowered.schedule);
        else
          EXPECT_NEAR(step, whole.makespan_s, 1e-9) << to_text(lowered.schedule);
        EXPECT_GE(step, *std::max_element(whole.busy_s.begin(), whole.busy_s.end()) - 1e-9);
      }
}

// The closed forms of docs/schedules.md, of a step of segments: every chunk has a forward, an input gradient and a
// weight gradient of 1 s (those of its one attention), messages are free. p stages, m micro-batches, v chunks a stage.
TEST(LoweredPlan, HasTheBubbleOfTheClosedForm) {
  const auto step = [](const std::string& schedule, int p, int m, int chunks) {
    plan::RunSpec run = run_of(schedule, p * plan::chunks_a_stage(schedule, chunks), m);
    run.layout.virtual_stages = chunks;
    const plan::Plan lowered = plan::make_training_plan(run, {p, 1, 1});
    return simulate(lowered, costs_of(lowered,
                                      [](const plan::Action& a) {
                                        if (a.segment != plan::Segment::attention) return 0.0;
                                        return a.kind == plan::ActionKind::backward ? 2.0 : 1.0;
                                      }))
        .step_s;
  };
  for (const int p : {1, 2, 3, 5})
    for (const int m : {2 * p, 5 * p}) {
      // Narayanan et al. 2021: (p - 1)(F + B), divided by v where chunks go round the stages.
      EXPECT_NEAR(step("gpipe", p, m, 1), 3.0 * (m + p - 1), 1e-9);
      EXPECT_NEAR(step("1f1b", p, m, 1), 3.0 * (m + p - 1), 1e-9);
      for (const int v : {2, 3})
        EXPECT_NEAR(step("interleaved_1f1b", p, m, v), 3.0 * (m * v + p - 1), 1e-9) << p << " " << m;
      // Qi et al. 2023: (p - 1)(F + I - W); a V's stages idle only until the first forward has come to the last one.
      EXPECT_NEAR(step("zero_bubble_h1", p, m, 1), 3.0 * m + p - 1, 1e-9) << p << " " << m;
      EXPECT_NEAR(step("zero_bubble_v", p, m, 1), 6.0 * m + p - 1, 1e-9) << p << " " << m;
    }
}

}  // namespace
}  // namespace trireme::sim
