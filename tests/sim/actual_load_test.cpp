#include "sim/actual_load.h"

#include <gtest/gtest.h>

#include "platform/platform_file.h"
#include "sim/price.h"

namespace trireme::sim {
namespace {

using plan::ActionKind;
using plan::Segment;

plan::RunSpec run() {
  plan::RunSpec r;
  r.model = {.vocab_size = 64, .hidden = 256, .num_layers = 1,
             .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 64},
             .moe = {.num_experts = 4, .expert_ffn = 256, .router = {.top_k = 2}}};
  r.layout = {.ep = 2};
  r.batch = {.sequence_length = 256, .micro_batch = 1, .global_batch = 2};
  return r;
}

TEST(ActualLoad, ScalesTheExpertsOfTheRankThatGotMore) {
  const plan::RunSpec r = run();
  const plan::Mesh mesh = plan::resolve_mesh(r, 2);
  const plan::Plan p = plan::make_training_plan(r, mesh);
  const platform::PlatformSpec platform = platform::default_platform();
  // 256 tokens of each of 2 ranks go to 2 experts each: 1,024 rows, 512 a rank if shared equally. Rank 1 gets 1,024.
  std::vector<plan::MeasuredRank> measured;
  for (const double rows : {0.0, 1024.0}) {
    plan::MeasuredRank m{.rank = static_cast<int>(measured.size())};
    m.expert_rows.assign(p.stages[0].actions.size(), 0);
    for (const auto& a : p.stages[0].actions)
      if (a.kind == ActionKind::forward && a.segment == Segment::experts) m.expert_rows[a.id] = rows;
    measured.push_back(m);
  }
  const int threads = threads_of_rank(r, platform, 2);
  const auto scale = load_scale(p, r, *rates_of_run(r, mesh, platform), threads, measured);
  ASSERT_EQ(scale.size(), 2u);
  int experts = 0;
  for (const auto& a : p.stages[0].actions) {
    const bool scaled = a.segment == Segment::experts && (a.kind == ActionKind::forward || a.kind == ActionKind::backward);
    experts += scaled;
    if (!scaled) {
      EXPECT_EQ(scale[0][a.id], 1);
      EXPECT_EQ(scale[1][a.id], 1);
      continue;
    }
    // Twice the rows are at most twice the work; fuller matmuls may make it a little less. No rows leave the launches.
    EXPECT_GT(scale[1][a.id], 1.5);
    EXPECT_LE(scale[1][a.id], 2.0 + 1e-9);
    EXPECT_LT(scale[0][a.id], 0.2);
  }
  EXPECT_EQ(experts, 2);  // one layer, one micro-batch, both passes

  const double balanced = predict(p, r, platform).prediction.step_s;
  EXPECT_GT(predict(p, r, platform, measured).prediction.step_s, balanced);
}

TEST(ActualLoad, NoRowsMeasuredChangesNothing) {
  const plan::RunSpec r = run();
  const plan::Mesh mesh = plan::resolve_mesh(r, 2);
  const plan::Plan p = plan::make_training_plan(r, mesh);
  const platform::PlatformSpec platform = platform::default_platform();
  for (const auto& of_rank : load_scale(p, r, *rates_of_run(r, mesh, platform), 1, {{.rank = 0}, {.rank = 1}}))
    for (const double s : of_rank) EXPECT_EQ(s, 1);
}

}  // namespace
}  // namespace trireme::sim
