#include "search/runs/runnable_layouts.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/layout_keys.h"
#include "plan/pieces.h"

namespace trireme::search {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Four layers, eight experts, eight sequences a step.
RunQuestion small_question(int num_ranks) {
  RunQuestion q{.num_ranks = num_ranks};
  model::ModelSpec& m = q.run.model;
  m.vocab_size = 64, m.hidden = 16, m.num_layers = 4, m.num_dense_layers = 1, m.dense_ffn = 32;
  m.attention.num_heads = m.attention.num_kv_heads = 2;
  m.moe.num_experts = 8, m.moe.expert_ffn = 16, m.moe.router.top_k = 2;
  q.run.batch = {.sequence_length = 32, .micro_batch = 1, .global_batch = 8};
  return q;
}

std::set<std::string> lines(const RunQuestion& q) {
  std::set<std::string> out;
  const auto found = runnable_layouts(q, 1000);
  for (const plan::RunSpec& run : *found)
    out.insert(fmt::format("pp {} ep {} dp {} mb {} {} {} {}", run.layout.pp, run.layout.ep, run.layout.dp,
                           run.batch.micro_batch, run.layout.schedule, run.layout.stage_layers, run.layout.all_to_all));
  return out;
}

TEST(RunnableLayouts, OfOneRankAreTheMicroBatches) {
  EXPECT_THAT(lines(small_question(1)),
              UnorderedElementsAre("pp 1 ep 1 dp 1 mb 1 1f1b [] flat", "pp 1 ep 1 dp 1 mb 2 1f1b [] flat",
                                   "pp 1 ep 1 dp 1 mb 4 1f1b [] flat", "pp 1 ep 1 dp 1 mb 8 1f1b [] flat"));
}

TEST(RunnableLayouts, OfTwoRanks) {
  // pp 1: ep 1 and 2, with 4 sequences a data rank: micro-batches of 1, 2, 4. pp 2: all 8 sequences: 1, 2, 4, 8; two
  // schedules; layers 2+2, and 1+3, 3+1 where an end weighs a layer or two.
  const auto found = lines(small_question(2));
  EXPECT_EQ(found.size(), 2 * 3 + 4 * 2 * 3u);
  EXPECT_TRUE(found.contains("pp 1 ep 2 dp 2 mb 4 1f1b [] auto"));
  EXPECT_TRUE(found.contains("pp 2 ep 1 dp 1 mb 8 gpipe [1, 3] flat"));
  EXPECT_TRUE(found.contains("pp 2 ep 1 dp 1 mb 1 1f1b [3, 1] flat"));
}

TEST(RunnableLayouts, EachIsARunThatResolves) {
  for (const int ranks : {1, 2, 3, 4, 6, 8}) {
    const RunQuestion q = small_question(ranks);
    const auto found = runnable_layouts(q, 1000);
    for (const plan::RunSpec& run : *found) {
      EXPECT_NO_THROW(plan::resolve_mesh(run, ranks));
      EXPECT_TRUE(plan::stage_layers_fit(run.layout, 4));
    }
  }
  // Three ranks: 8 sequences are no multiple of 3, so they are stages.
  const auto of_three = runnable_layouts(small_question(3), 1000);
  for (const plan::RunSpec& run : *of_three) EXPECT_EQ(run.layout.pp, 3);
  EXPECT_TRUE(runnable_layouts(small_question(5), 1000)->empty());  // more stages than layers
}

TEST(RunnableLayouts, GivenKeysAreKept) {
  RunQuestion q = small_question(4);
  q.run.layout.pp = 2, q.run.layout.schedule = "gpipe", q.run.layout.stage_layers = {1, 3}, q.run.batch.micro_batch = 2;
  q.run.layout.all_to_all = "bruck";
  q.given = {"layout.pp", "layout.schedule", "layout.stage_layers", "layout.all_to_all", "batch.micro_batch"};
  EXPECT_THAT(lines(q), UnorderedElementsAre("pp 2 ep 1 dp 2 mb 2 gpipe [1, 3] bruck", "pp 2 ep 2 dp 2 mb 2 gpipe [1, 3] bruck"));
}

TEST(RunnableLayouts, TooManyAreNotListedAndRefusedKeysAreNamed) {
  EXPECT_FALSE(runnable_layouts(small_question(2), 29));
  EXPECT_TRUE(runnable_layouts(small_question(2), 30));
  RunQuestion q = small_question(2);
  q.run.layout.tp = 2, q.given = {"layout.tp"};
  try {
    runnable_layouts(q, 100);
    ADD_FAILURE();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("--set: layout.tp = 2: must be 1 in a training run"));
  }
}

TEST(RunnableLayouts, AQuestionIsHeldToWhatTrainExecutes) {
  Question q;
  hold_to_runnable(q);
  for (const char* key : {"layout.tp", "layout.cp", "layout.etp", "layout.virtual_stages", "layout.schedule",
                          "layout.sharding", "layout.recompute", "layout.swap", "layout.matrix_owners",
                          "layout.overlap.gradients", "layout.overlap.experts"})
    EXPECT_TRUE(q.is_given(key)) << key;
  for (const char* key : {"layout.pp", "layout.ep", "layout.stage_layers", "layout.all_to_all", "batch.micro_batch"})
    EXPECT_FALSE(q.is_given(key)) << key;
}

}  // namespace
}  // namespace trireme::search
