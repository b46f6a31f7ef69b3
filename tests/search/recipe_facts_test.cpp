// What is known of recipes and stacks where rows are silent.
#include <gtest/gtest.h>

#include "search/validation/prediction.h"
#include "search/validation/stack_facts.h"

namespace trireme::search {
namespace {

model::ModelSpec mixture() {
  model::ModelSpec m = *gpt_by_sizes("GPT h=1024 L=8 a=8");
  m.moe.num_experts = 64, m.moe.router.top_k = 4, m.moe.expert_ffn = 512, m.num_dense_layers = 0;
  return m;
}

const FindModel find = [](const std::string&, std::string&) { return std::optional(mixture()); };

Row bridge_row(const char* precision, const char* overlap) {
  Row row{
      .id = "mb-a", .source = "NVIDIA-NeMo/Megatron-Bridge", .model = "m", .hardware = "GB200", .precision = precision};
  row.devices = 64, row.tp = row.pp = 1, row.ep = 32, row.micro_batch = 1, row.global_batch = 256, row.sequence = 4096;
  row.scorable = "yes", row.measured = 1, row.recompute = "none", row.overlap = overlap;
  row.notes = "container NeMo 26.06";
  return row;
}

sim::Setting setting_of(const Row& row) {
  const ResolvedRow r = resolve(row, find);
  EXPECT_EQ(r.skipped, "");
  return r.setting;
}

TEST(RecipeFacts, CapturedIterationsRunGroupedExperts) {
  const sim::Setting whole = setting_of(bridge_row("MXFP8", "hybridep; CUDA graph full_iteration"));
  EXPECT_TRUE(whole.execution.fused_experts);
  EXPECT_FALSE(whole.execution.launches_by_expert);
  EXPECT_TRUE(whole.layout.overlap.experts);
  // Kernels that quantise as they write exist for block scales only.
  EXPECT_FALSE(setting_of(bridge_row("BF16", "hybridep; CUDA graph full_iteration")).execution.fused_experts);
  const sim::Setting parts = setting_of(bridge_row("MXFP8", "hybridep; CUDA graph transformer_engine attn"));
  EXPECT_FALSE(parts.execution.fused_experts);
  EXPECT_TRUE(parts.execution.launches_by_expert);
  EXPECT_FALSE(parts.layout.overlap.experts);
}

TEST(RecipeFacts, DispatchersAreThoseThatRecipesName) {
  EXPECT_EQ(setting_of(bridge_row("BF16", "CUDA graph attn")).layout.all_to_all, "flat");
  EXPECT_EQ(setting_of(bridge_row("BF16", "hybridep")).layout.all_to_all, "dedup");
  EXPECT_EQ(setting_of(bridge_row("BF16", "hybridep")).execution.exchange_links, 1);
  // 32 ranks in one NVLink domain: dispatch at 400 and combine at 190 GB/s, 258 on average, of links that carry 780.
  EXPECT_NEAR(setting_of(bridge_row("BF16", "DeepEP")).execution.exchange_links, 258.0 / 780, 0.01);
  Row eight = bridge_row("BF16", "DeepEP");
  eight.ep = 8;
  EXPECT_EQ(setting_of(eight).execution.exchange_links, 1);
}

TEST(RecipeFacts, DroppedTokensNeedNoCounts) {
  Row row = bridge_row("FP8", "");
  EXPECT_TRUE(setting_of(row).execution.reads_counts);
  row.notes += "; token-drop MoE";
  EXPECT_FALSE(setting_of(row).execution.reads_counts);
}

TEST(RecipeFacts, FormatsDecideOnScalesAndTensorOverlap) {
  EXPECT_TRUE(setting_of(bridge_row("FP8", "")).execution.current_scaling);
  Row delayed = bridge_row("FP8", "");
  delayed.id = "d", delayed.source = "dgxc-benchmarking 25.04", delayed.notes = "";
  EXPECT_FALSE(setting_of(delayed).execution.current_scaling);
  const FindModel dense = [](const std::string&, std::string&) { return gpt_by_sizes("GPT h=1024 L=8 a=8"); };
  const auto overlaps = [&](const char* precision) {
    Row row = bridge_row(precision, "");
    row.tp = 2, row.ep = std::nullopt;
    return resolve(row, dense).setting.layout.overlap.tensor;
  };
  EXPECT_TRUE(overlaps("MXFP8"));
  EXPECT_FALSE(overlaps("NVFP4"));
}

TEST(RecipeFacts, OnlyForcedRoutingIsBalanced) {
  EXPECT_EQ(setting_of(bridge_row("BF16", "hybridep")).load.cv, 0);
  Row tuned = bridge_row("BF16", "DeepEP");
  tuned.id = "h", tuned.source = "whitecircle/halo";
  EXPECT_EQ(setting_of(tuned).load.cv, 0.5);
  const auto assumed = resolve(tuned, find).assumptions;
  EXPECT_NE(std::find(assumed.begin(), assumed.end(), "expert load"), assumed.end());
  tuned.ep = 1;  // every rank has every expert
  EXPECT_EQ(setting_of(tuned).load.cv, 0);
}

TEST(RecipeFacts, BlankRowsTakeTheRecipesOfTheirModelOnThatMachine) {
  Row blank = bridge_row("BF16", "");
  Row whole = bridge_row("MXFP8", "hybridep; CUDA graph full_iteration");
  whole.pp = 2;
  Row parts = bridge_row("MXFP8", "hybridep; CUDA graph transformer_engine attn");
  parts.pp = 4, parts.notes = "container NeMo 26.08";
  std::vector<Row> rows{blank, whole, parts};
  borrow_blanks(rows, {}, find);
  EXPECT_EQ(rows[0].overlap, parts.overlap);  // what captures an iteration is of one format
  ASSERT_EQ(rows[0].borrowed.size(), 1u);
  EXPECT_EQ(rows[0].borrowed[0], "overlap of another recipe of the model on this machine");
  // Another machine's, or recipes that dropped tokens, say nothing.
  rows = {blank, parts};
  rows[1].hardware = "H100";
  borrow_blanks(rows, {}, find);
  EXPECT_EQ(rows[0].overlap, "");
  rows = {blank, parts};
  rows[0].notes += "; token-drop MoE";
  borrow_blanks(rows, {}, find);
  EXPECT_EQ(rows[0].overlap, "");
}

}  // namespace
}  // namespace trireme::search
