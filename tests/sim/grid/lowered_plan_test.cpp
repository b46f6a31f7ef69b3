// A lowered plan of several chunks a stage takes as long in the simulator of actions as its grid does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/grid/simulate_grid.h"
#include "sim/simulate.h"

namespace trireme::sim {
namespace {

TEST(LoweredPlan, TakesAsLongAsItsGrid) {
  plan::RunSpec run;
  run.model = {.vocab_size = 99,
               .hidden = 32,
               .num_layers = 7,
               .num_dense_layers = 1,
               .dense_ffn = 48,
               .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8},
               .moe = {.num_experts = 8, .expert_ffn = 16, .router = {.top_k = 2}}};
  run.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = 12};
  run.layout.schedule = "interleaved_1f1b";
  for (const int p : {1, 2, 3})
    for (const int chunks : {2, 3}) {
      run.layout.virtual_stages = chunks;
      const plan::Plan lowered = plan::make_training_plan(run, {p, 1, 1});
      // A forward segment 1 s, a backward segment 2 s, all else free: chunks are unequal, by their segments.
      plan::Costs costs;
      GridCosts grid;
      grid.forward_s.assign(p * chunks, 0);
      grid.backward_s.assign(p * chunks, 0);
      for (int s = 0; s < p; ++s) {
        const auto& actions = lowered.stages[s].actions;
        plan::StageCosts& of_stage = costs.stages.emplace_back();
        of_stage.buffer_bytes.assign(lowered.stages[s].buffers.size(), 0);
        of_stage.action_workspace_bytes.assign(actions.size(), 0);
        for (const plan::Action& a : actions) {
          const bool forward = a.kind == plan::ActionKind::forward, backward = a.kind == plan::ActionKind::backward;
          of_stage.action_s.push_back(forward ? 1 : backward ? 2 : 0);
          if (forward && a.mb == 0) ++grid.forward_s[s * chunks + a.chunk];
          if (backward && a.mb == 0) grid.backward_s[s * chunks + a.chunk] += 2;
        }
      }
      EXPECT_NEAR(simulate(lowered, costs).step_s, simulate_grid(compile(lowered.schedule), grid).makespan_s, 1e-9)
          << to_text(lowered.schedule);
    }
}

}  // namespace
}  // namespace trireme::sim
