#include "sim/sampled_load.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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
  const auto ranks = sampled_rows(p, r, {.cv = 0.4, .seed = 7, .counts = {}});
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
  EXPECT_EQ(sampled_rows(p, r, {.cv = 0.4, .seed = 7, .counts = {}})[3].expert_rows, ranks[3].expert_rows);
  EXPECT_NE(sampled_rows(p, r, {.cv = 0.4, .seed = 8, .counts = {}})[3].expert_rows, ranks[3].expert_rows);
  for (const auto& of_rank : sampled_rows(p, r, {.cv = 0, .seed = 7, .counts = {}}))
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

// 10 tokens of 3 experts send 30 rows.
TEST(SampledLoad, WholeRowsAreAllThereAndNoExpertComesTwiceForAToken) {
  using Rows = std::vector<std::int64_t>;
  EXPECT_EQ(whole_rows({1, 1, 1, 1, 1, 1}, 10, 3), (Rows{5, 5, 5, 5, 5, 5}));
  // 30 of 7 parts are 4.29 a part: 4, 4, 4, 4, 8 and two for the largest fractions, which are the 0.57 of the last and the
  // first of the 0.29.
  EXPECT_EQ(whole_rows({1, 1, 1, 1, 1, 2}, 10, 3), (Rows{5, 4, 4, 4, 4, 9}));
  // The first would get 20, but there are ten tokens; the other 20 rows fall on the rest by their weights.
  EXPECT_EQ(whole_rows({4, 1, 1, 0, 0, 0}, 10, 3), (Rows{10, 10, 10, 0, 0, 0}));
  EXPECT_EQ(whole_rows({30, 5, 5, 5, 5, 0}, 10, 3), (Rows{10, 5, 5, 5, 5, 0}));
  // One expert alone can't take a token three times: the rest is spread evenly.
  EXPECT_EQ(whole_rows({1, 0, 0, 0, 0, 0}, 10, 3), (Rows{10, 4, 4, 4, 4, 4}));
  EXPECT_EQ(whole_rows({0, 0, 0}, 10, 3), (Rows{10, 10, 10}));
}

TEST(SampledLoad, CountsOfARunStandForEveryMicroBatch) {
  const plan::RunSpec r = run();
  const plan::Plan p = plan::make_training_plan(r, plan::resolve_mesh(r, 4));
  RoutedLoad load;
  for (int layer = 0; layer < 4; ++layer) {
    load.counts[layer].assign(16, 1);
    load.counts[layer][0] = 17;  // half of all rows and one: rank 0 of a group gets 24 of 32 parts
  }
  const auto ranks = sampled_rows(p, r, load);
  for (const auto& a : p.stages[0].actions)
    if (a.kind == plan::ActionKind::forward && a.segment == plan::Segment::experts) {
      EXPECT_EQ(ranks[0].expert_rows[a.id], 256 * 1.5);
      EXPECT_EQ(ranks[3].expert_rows[a.id], 256 * 0.5);
    }
  EXPECT_EQ(expert_group(p.mesh, 3), 2);
  EXPECT_EQ(nlohmann::json(load).get<RoutedLoad>(), load);
}

}  // namespace
}  // namespace trireme::sim
