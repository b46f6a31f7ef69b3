#include "search/layouts/layout_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::search {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

sim::Setting small() {
  sim::Setting s;
  s.model.vocab_size = 1000, s.model.hidden = 64, s.model.num_layers = 8, s.model.dense_ffn = 256,
  s.model.num_dense_layers = 1;
  s.model.attention.num_heads = s.model.attention.num_kv_heads = 8, s.model.attention.head_dim = 8;
  s.model.moe = {.num_experts = 12, .expert_ffn = 32};
  s.model.moe.router.top_k = 2;
  s.num_devices = 16;
  s.layout.pp = 2, s.layout.dp = 4, s.layout.tp = 2, s.layout.ep = 4;
  s.batch = {.sequence_length = 128, .micro_batch = 1, .global_batch = 32};
  return s;
}

TEST(LayoutRules, SayWhatDoesNotDivide) {
  EXPECT_THAT(broken_rules(small()), IsEmpty());
  sim::Setting s = small();
  s.layout.ep = 5;
  EXPECT_THAT(broken_rules(s), ElementsAre("layout.ep = 5 does not divide the 12 experts",
                                           "layout.ep 5 x layout.etp 1 does not divide the 8 ranks of a stage"));
  s = small();
  s.layout.pp = 3;
  EXPECT_THAT(broken_rules(s), ElementsAre("pp 3 x tp 2 x cp 1 x dp 4 does not make up 16 devices"));
  s = small();
  s.batch.global_batch = 30;
  EXPECT_THAT(broken_rules(s), ElementsAre("a global batch of 30 sequences is no multiple of micro-batch 1 x dp 4"));
  s = small();
  s.layout.cp = 4, s.num_devices = 64, s.batch.sequence_length = 132;
  // 132 / 8 is no whole number; 132 / 4 = 33 tokens are odd
  EXPECT_THAT(broken_rules(s),
              ElementsAre("sequence parallelism: layout.tp = 2 does not divide the 33 tokens of a micro-batch",
                          "layout.cp = 4: a sequence of 132 tokens has no 8 equal chunks, two for each rank"));
}

// Widths and degrees of 0 are none: nobody could change them.
TEST(LayoutRules, SpeakOnlyOfWhatThereIs) {
  sim::Setting s = small();
  s.layout.dp = 0;
  EXPECT_THAT(broken_rules(s), ElementsAre("pp 2 x tp 2 x cp 1 does not make up 16 devices"));
  s = small();
  s.layout.tp = 3, s.model.dense_ffn = 0;
  EXPECT_THAT(broken_rules(s), testing::Contains(fmt::format("layout.tp = 3 does not divide the hidden size {}", s.model.hidden)));
}

TEST(LayoutRules, HoldSchedulesToWhatTheyRun) {
  sim::Setting s = small();
  s.layout.schedule = "interleaved_1f1b";
  EXPECT_THAT(broken_rules(s),
              ElementsAre("the schedule interleaved_1f1b does not run with layout.virtual_stages = 1"));
  s.layout.virtual_stages = 2;
  EXPECT_THAT(broken_rules(s), IsEmpty());  // 8 micro-batches on 2 stages
  s.batch.global_batch = 28;
  EXPECT_THAT(broken_rules(s), ElementsAre("interleaved_1f1b: 7 micro-batches are no multiple of 2 stages"));
  s = small();
  s.layout.stage_layers = {4, 5};
  EXPECT_THAT(broken_rules(s),
              ElementsAre("layout.stage_layers: 2 entries with 9 layers in all, for 2 pieces of 8 layers"));
  s = small();
  s.layout.expert_shard_degree = 3;
  // 8 ranks of a stage hold 4 groups of experts: 2 with the same
  EXPECT_THAT(broken_rules(s),
              ElementsAre("layout.expert_shard_degree = 3 does not divide the 2 ranks with the same experts"));
}

TEST(LayoutRules, DenseLayersAndExpertsHaveTheSameStages) {
  sim::Setting s = small();
  s.layout.order = plan::order_from_text("tp-cp-ep-pp-dp");
  EXPECT_THAT(broken_rules(s), ElementsAre("layout.order: with tp-cp-ep-pp-dp 2 ranks of dense layers and 4 of experts come "
                                           "before pp, which must be as many"));
  s.layout.ep = 2;
  EXPECT_THAT(broken_rules(s), IsEmpty());
  s.layout.ep = 1, s.model.moe = {};  // a dense model has no experts' stages
  EXPECT_THAT(broken_rules(s), IsEmpty());
}

TEST(LayoutRules, ADenseModelHasNoExpertDegrees) {
  sim::Setting s = small();
  s.model.moe = {};
  s.layout.ep = 2;
  EXPECT_THAT(broken_rules(s), ElementsAre("layout.ep = 2, layout.etp = 1: the model has no experts"));
}

}  // namespace
}  // namespace trireme::search
