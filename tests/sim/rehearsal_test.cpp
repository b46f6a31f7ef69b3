#include "sim/rehearsal.h"

#include <gtest/gtest.h>

#include "platform/platform_file.h"

namespace trireme::sim {
namespace {

plan::RunSpec run() {
  plan::RunSpec r;
  r.model = {.vocab_size = 64,
             .hidden = 64,
             .num_layers = 4,
             .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 16},
             .moe = {.num_experts = 16, .expert_ffn = 64, .router = {.top_k = 2}}};
  r.layout = {.pp = 2, .ep = 2};
  r.batch = {.sequence_length = 128, .micro_batch = 1, .global_batch = 8};
  return r;
}

struct Made {
  plan::RunSpec spec = run();
  plan::Plan plan = plan::make_training_plan(spec, plan::resolve_mesh(spec, 4));
  platform::PlatformSpec platform;
  Predicted predicted;
  Rehearsal rehearsal;
  explicit Made(platform::PlatformSpec on) : platform(std::move(on)) {
    predicted = predict(plan, spec, platform);
    rehearsal = plan_rehearsal(plan, spec, platform, {}, predicted);
  }
};

double length(const plan::Span& s) { return s.end_s - s.start_s; }

// A device to each rank: waiting and computing are the same, so the rehearsal is predicted as the step is.
TEST(Rehearsal, OnOwnDevicesItIsThePlansPrediction) {
  platform::PlatformSpec on = platform::default_platform();
  on.host.cores = 0;
  const Made m(on);
  EXPECT_NEAR(m.rehearsal.prediction.step_s, m.predicted.prediction.step_s, 1e-12);
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t i = 0; i < m.predicted.prediction.ranks[r].spans.size(); ++i)
      EXPECT_NEAR(m.rehearsal.prediction.ranks[r].spans[i].end_s, m.predicted.prediction.ranks[r].spans[i].end_s, 1e-12);
}

// Four ranks on one core: a step that computes is four times its prices at least, and so are the waits, but while ranks wait
// the core is free for messages. Compute then takes as long as predicted, and the step no longer.
TEST(Rehearsal, OnSharedCoresItWaitsAsLongAsComputeIsPredictedToTake) {
  platform::PlatformSpec on = platform::default_platform();
  on.host.cores = 1;
  on.host.busy.clear();
  on.host.noise = {};
  on.framework.communication_core_share = 0.5;
  const Made m(on);
  for (int r = 0; r < 4; ++r) {
    const auto& actions = m.plan.stages[static_cast<std::size_t>(m.plan.mesh.pp_index(r))].actions;
    for (const plan::Action& a : actions) {
      const auto i = static_cast<std::size_t>(a.id);
      const double predicted = length(m.predicted.prediction.ranks[static_cast<std::size_t>(r)].spans[i]);
      const double wait = m.rehearsal.wait_s[static_cast<std::size_t>(r)][i];
      EXPECT_EQ(wait, a.lane == plan::Lane::compute ? predicted : 0) << plan::describe(a);
      if (a.lane == plan::Lane::compute)
        EXPECT_NEAR(length(m.rehearsal.prediction.ranks[static_cast<std::size_t>(r)].spans[i]), wait, 1e-9) << plan::describe(a);
    }
  }
  EXPECT_LT(m.rehearsal.prediction.step_s, m.predicted.prediction.step_s);
  EXPECT_EQ(m.rehearsal.prediction.memory.size(), 2u);
}

}  // namespace
}  // namespace trireme::sim
