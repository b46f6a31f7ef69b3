#include "sim/sampled_load.h"

#include <cmath>

#include <gtest/gtest.h>

#include "platform/platform_file.h"
#include "sim/price.h"

namespace trireme::sim {
namespace {

plan::RunSpec run() {
  plan::RunSpec r;
  r.model = {.vocab_size = 64,
             .hidden = 64,
             .num_layers = 4,
             .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 16},
             .moe = {.num_experts = 16, .expert_ffn = 64, .router = {.top_k = 2}}};
  r.layout = {.ep = 2};
  r.batch = {.sequence_length = 128, .micro_batch = 1, .global_batch = 64};
  return r;
}

TEST(SampledLoad, SharesAllRowsOfAGroupAndVariesAsExpertsDo) {
  const plan::RunSpec r = run();
  const plan::Mesh mesh = plan::resolve_mesh(r, 4);  // dp 4: two groups of two
  const plan::Plan p = plan::make_training_plan(r, mesh);
  const auto ranks = sampled_rows(p, r, 0.4, 7);
  ASSERT_EQ(ranks.size(), 4U);
  const double equal = 128 * 2;  // rows that a rank sends, and gets if all experts are alike
  double squares = 0;
  int n = 0, different = 0;
  for (const auto& a : p.stages[0].actions) {
    if (a.kind != plan::ActionKind::forward || a.segment != plan::Segment::experts) {
      EXPECT_EQ(ranks[0].expert_rows[a.id], 0);
      continue;
    }
    for (const int first : {0, 2}) {
      const double share = ranks[first].expert_rows[a.id] / equal;
      EXPECT_NEAR(share + ranks[first + 1].expert_rows[a.id] / equal, 2, 1.0 / 32 + 1e-9);
      squares += (share - 1) * (share - 1), ++n;
    }
    different += ranks[0].expert_rows[a.id] != ranks[2].expert_rows[a.id];
  }
  ASSERT_EQ(n, 2 * 4 * 16);  // 2 groups, 4 layers, 16 micro-batches
  EXPECT_GT(different, 32);
  // Of two ranks' sums of 8 experts each: the half of their difference, cv / sqrt(8) / sqrt(2) = 0.1.
  EXPECT_NEAR(std::sqrt(squares / n), 0.1, 0.02);
  EXPECT_EQ(sampled_rows(p, r, 0.4, 7)[3].expert_rows, ranks[3].expert_rows);
  EXPECT_NE(sampled_rows(p, r, 0.4, 8)[3].expert_rows, ranks[3].expert_rows);
  for (const auto& of_rank : sampled_rows(p, r, 0, 7))
    for (const auto& a : p.stages[0].actions)
      if (a.kind == plan::ActionKind::forward && a.segment == plan::Segment::experts)
        EXPECT_EQ(of_rank.expert_rows[a.id], equal);
}

TEST(SampledLoad, MakesRanksOfAGroupWait) {
  const plan::RunSpec r = run();
  const plan::Mesh mesh = plan::resolve_mesh(r, 4);
  const plan::Plan p = plan::make_training_plan(r, mesh);
  platform::PlatformSpec platform = platform::default_platform();
  platform.device.segments = {{.threads = 1,
                               .model = "m",
                               .segment = {"experts"},
                               .layer = {"moe"},
                               .pass = {"forward"},
                               .tokens = {256},
                               .experts = {8},
                               .factor = {1}}};
  platform.host.cores = 8;  // where ranks share cores, others compute meanwhile
  const double even = predict(p, r, platform).prediction.step_s;
  platform.device.segments[0].load_cv = {0.4};
  EXPECT_GT(predict(p, r, platform).prediction.step_s, even);
}

}  // namespace
}  // namespace trireme::sim
