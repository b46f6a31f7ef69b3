#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/parameter_parts.h"
#include "plan/pipeline/generators.h"
#include "sim/estimate/expert_load.h"
#include "sim/estimate/memory.h"
#include "sim/estimate/memory_states.h"

namespace trireme::sim {
namespace {

using plan::Recompute;
using plan::Sharding;
using plan::Swap;

Setting moe_setting() {
  Setting s;
  s.model.vocab_size = 32000, s.model.hidden = 1024, s.model.num_layers = 8, s.model.num_dense_layers = 1;
  s.model.dense_ffn = 4096;
  s.model.attention.num_heads = 16, s.model.attention.num_kv_heads = 4, s.model.attention.head_dim = 64;
  s.model.moe.num_experts = 16, s.model.moe.expert_ffn = 512, s.model.moe.router.top_k = 2;
  s.layout.dp = 8;
  s.batch = {.sequence_length = 1024, .micro_batch = 1, .global_batch = 64};
  s.num_devices = 8;
  return s;
}

MemoryEstimate estimate(const Setting& s, const model::Kernels& p = {}, const MemoryOptions& options = {}) {
  const int m = static_cast<int>(s.batch.num_micro_batches(data_ranks(s).dense / s.layout.cp));
  const auto schedule = plan::make_schedule(
      s.layout.schedule, {.num_stages = s.layout.pp,
                          .num_micro_batches = m,
                          .num_chunks = plan::chunks_a_stage(s.layout.schedule, s.layout.virtual_stages)});
  return estimate_memory(s, schedule, p, options);
}

double item(const StageMemory& stage, const std::string& name) {
  double bytes = 0;
  for (const MemoryItem& i : stage.items)
    if (i.name == name) bytes += i.bytes;
  return bytes;
}

// Every shipped model, by what each rank of its stage holds: the sum over the matrices listed here against the closed
// forms of model::parameters_of (which count one rank's largest share).
TEST(States, CountsEveryShippedModel) {
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_SOURCE_DIR "/configs/models")) {
    Setting s;
    s.model = model::load_model(entry.path());
    if (s.model.num_layers == 0) continue;
    const model::Kernels plain;
    WeightTable table(s, plain);
    const model::LayerRange all{.first_layer = 0, .num_layers = s.model.num_layers, .embed = true, .head = true};
    const double counted = state_bytes(table, &all, 1, false).elements.total();
    const auto expected = static_cast<double>(model::parameters_of(s.model, model::whole_model(s.model, true)).total());
    EXPECT_NEAR(counted / expected, 1, 1e-6) << entry.path();
  }
}

TEST(States, ExpertsWithoutTensorParallelism) {
  Setting s = moe_setting();
  ASSERT_EQ(s.layout.tp, 1);
  const model::Kernels p;
  const model::LayerRange all{.first_layer = 0, .num_layers = 8, .embed = true, .head = true};
  WeightTable whole(s, p);
  const model::WeightElements one = state_bytes(whole, &all, 1, true).elements;
  s.layout.ep = 8;
  WeightTable split(s, p);
  const model::WeightElements eight = state_bytes(split, &all, 1, true).elements;
  EXPECT_EQ(one.expert, 7.0 * 16 * 3 * 512 * 1024);  // 7 MoE layers of 16 experts of three matrices
  EXPECT_EQ(eight.expert, one.expert / 8);
  EXPECT_EQ(eight.dense, one.dense);
  EXPECT_GT(item(estimate(s).stages[0], "rows by expert"), 0);  // what EP > 1 exchanges is kept, with TP = 1
}

// Dense parameters are sharded over all 8 data ranks, experts over the 2 that hold the same ones.
TEST(States, DenseAndExpertsShardOnTheirOwnMeshes) {
  Setting s = moe_setting();
  s.layout.ep = 4;
  s.layout.sharding = Sharding::optimizer;
  const StageMemory stage = estimate(s).stages[0];
  const model::Kernels p;
  WeightTable weights(s, p);
  const model::LayerRange all{.first_layer = 0, .num_layers = 8, .embed = true, .head = true};
  const model::WeightElements n = state_bytes(weights, &all, 1, true).elements;
  EXPECT_DOUBLE_EQ(item(stage, "moments"), 8 * (n.dense / 8 + n.expert / 2));
  EXPECT_DOUBLE_EQ(item(stage, "gradients"), 4 * (n.dense + n.expert));
}

// Two matrices of 3 and two of 2 units on two owners: longest first gives 5 and 5, flat shards too; three of 3 give 6
// and 3, so the heaviest holds 4/3 of the mean. Here: q, k, v (1536 x 1024) and o (1024 x 1024) of one layer and the
// two of its feed-forward (8192 x 1024, 1024 x 4096), on two owners: 8 Mi on one, 4 + 1.5 + 1 Mi on the other.
TEST(States, WholeMatricesOnOwners) {
  Setting s = moe_setting();
  s.model.num_layers = s.model.num_dense_layers = 1;
  s.model.moe = {};
  s.layout.dp = 2;
  s.layout.sharding = Sharding::optimizer;
  s.layout.matrix_owners = true;
  const double Mi = 1024.0 * 1024.0, flat = (2 * 32000.0 * 1024 + 3 * 1024) / 2;  // tables and norms stay flat
  EXPECT_DOUBLE_EQ(item(estimate(s).stages[0], "moments"), 8 * (8 * Mi + flat));
}

TEST(OverTime, UnevenStagesAreNotAveraged) {
  Setting s = moe_setting();
  s.layout.pp = 2;
  s.layout.dp = 4;
  s.layout.stage_layers = {6, 2};
  const MemoryEstimate uneven = estimate(s);
  s.layout.stage_layers = {4, 4};
  const MemoryEstimate even = estimate(s);
  const double average = (uneven.stages[0].needed_bytes + uneven.stages[1].needed_bytes) / 2;
  EXPECT_EQ(uneven.heaviest, 0);
  EXPECT_GT(uneven.needed_bytes(), 1.2 * average);
  EXPECT_GT(uneven.needed_bytes(), even.needed_bytes());
}

// GPipe: every micro-batch's forward comes before the first backward.
TEST(OverTime, GpipeHoldsEveryMicroBatch) {
  Setting s = moe_setting();
  s.layout.schedule = "gpipe";
  EXPECT_EQ(estimate(s).stages[0].chunks_in_flight, 8);
  s.layout.schedule = "1f1b";
  EXPECT_EQ(estimate(s).stages[0].chunks_in_flight, 1);
}

TEST(OverTime, TheCurveEndsWhereItStarted) {
  Setting s = moe_setting();
  s.layout.pp = 2, s.layout.dp = 4;
  const MemoryEstimate e = estimate(s, {}, {.slots = true});
  for (const StageMemory& stage : e.stages) {
    ASSERT_EQ(stage.slots.size(), 2 * 16u);
    EXPECT_NEAR(stage.slots.back().after_bytes,
                stage.allocated_bytes - (stage.slots[stage.peak_slot].peak_bytes - stage.slots.back().after_bytes), 1);
    double highest = 0;
    for (const MemorySlot& slot : stage.slots) highest = std::max(highest, slot.peak_bytes);
    EXPECT_EQ(highest, stage.allocated_bytes);
  }
}

// Weight gradients that wait keep inputs and output gradients: more than a whole backward leaves behind.
TEST(OverTime, DelayedWeightGradientsCost) {
  const Setting s = moe_setting();
  const auto whole = plan::parse_schedule("1f1b, 1 stages, 2 micro-batches, 1 chunk\nstage 0 | F0 B0 F1 B1\n");
  const auto late = plan::parse_schedule("late, 1 stages, 2 micro-batches, 1 chunk\nstage 0 | F0 I0 F1 I1 W0 W1\n");
  EXPECT_GT(estimate_memory(s, late, {}).needed_bytes(), estimate_memory(s, whole, {}).needed_bytes());
  const auto prompt = plan::parse_schedule("prompt, 1 stages, 2 micro-batches, 1 chunk\nstage 0 | F0 I0 W0 F1 I1 W1\n");
  EXPECT_GE(estimate_memory(s, prompt, {}).needed_bytes(), estimate_memory(s, whole, {}).needed_bytes());
  EXPECT_LT(estimate_memory(s, prompt, {}).needed_bytes(), estimate_memory(s, late, {}).needed_bytes());
}

TEST(Activations, EachPolicySavesWhatItNames) {
  Setting s = moe_setting();
  s.layout.ep = 4;
  s.model.attention.kind = model::AttentionKind::latent;
  s.model.attention.num_kv_heads = 16, s.model.attention.kv_lora_rank = 128, s.model.attention.q_lora_rank = 256;
  s.model.attention.qk_nope_dim = 64, s.model.attention.qk_rope_dim = 32, s.model.attention.v_head_dim = 64;
  s.model.attention.head_dim = 96;
  const StageMemory plain = estimate(s).stages[0];
  const auto with = [&](Recompute part) {
    Setting t = s;
    t.layout.recompute.add(part);
    return estimate(t).stages[0];
  };
  EXPECT_EQ(item(with(Recompute::norm), "normed input"), 0);
  EXPECT_EQ(item(with(Recompute::activation), "experts' gated"), 0);
  EXPECT_EQ(item(with(Recompute::activation), "gated"), 0);
  const StageMemory up = with(Recompute::mla_up_projection);
  EXPECT_EQ(item(up, "queries") + item(up, "keys") + item(up, "values"), 0);
  EXPECT_EQ(item(up, "query latent"), item(plain, "query latent"));
  const StageMemory attention = with(Recompute::attention);
  EXPECT_EQ(item(attention, "query latent") + item(attention, "attention output"), 0);
  EXPECT_EQ(item(attention, "rows by expert"), item(plain, "rows by expert"));
  const StageMemory moe = with(Recompute::moe);
  EXPECT_EQ(item(moe, "rows by expert") + item(moe, "experts' gated") + item(moe, "places of rows"), 0);
  EXPECT_EQ(item(moe, "feed-forward's input"), item(plain, "feed-forward's input"));
  const StageMemory layer = with(Recompute::layer);
  EXPECT_EQ(item(layer, "residual stream"), item(plain, "residual stream") / 2);  // two a layer without recomputation
  EXPECT_EQ(item(layer, "feed-forward's input") + item(layer, "queries"), 0);
  // Of the eight layers, the first three.
  Setting three = s;
  three.layout.recompute.add(Recompute::layer);
  three.layout.recompute_layers = 3;
  EXPECT_DOUBLE_EQ(item(estimate(three).stages[0], "queries"), item(plain, "queries") * 5 / 8);
}

TEST(Activations, SwappingMovesThemToTheHost) {
  Setting s = moe_setting();
  const StageMemory kept = estimate(s).stages[0];
  s.layout.swap.add(Swap::activations);
  const StageMemory swapped = estimate(s).stages[0];
  double layers = 0;
  for (const MemoryItem& i : swapped.items)
    if (i.place == MemoryPlace::host) layers += i.bytes;
  EXPECT_DOUBLE_EQ(swapped.host_bytes, layers);
  EXPECT_LT(swapped.needed_bytes, kept.needed_bytes);
  s.layout.swap.add(Swap::optimizer);
  const StageMemory both = estimate(s).stages[0];
  EXPECT_EQ(item(both, "moments"), 0);
  EXPECT_GT(both.host_bytes, swapped.host_bytes);
}

TEST(Activations, Float8KeepsAByteOfEachInput) {
  Setting s = moe_setting();
  const StageMemory wide = estimate(s).stages[0];
  s.precision.compute = ComputeFormat::float8;
  const StageMemory narrow = estimate(s).stages[0];
  // The experts' input is a bf16 copy of rows in the one, an 8-bit one in the other; queries stay bf16.
  EXPECT_EQ(item(narrow, "queries"), item(wide, "queries"));
  EXPECT_EQ(item(narrow, "experts' gated"), 0);
  EXPECT_GT(item(narrow, "quantised input"), item(wide, "experts' gated") / 2);
  EXPECT_GT(item(narrow, "quantised weights"), 0);
}

// Scores and float32 logits are stored where nothing fuses them: tokens x keys x heads x 2 bytes, tokens x rows x 4.
TEST(Activations, FollowTheExecution) {
  Setting s = moe_setting();
  const model::Kernels p = model::find_kernels("megatron");
  const StageMemory fused = estimate(s, p).stages[0];
  EXPECT_EQ(item(fused, "attention probabilities") + item(fused, "logits in float32"), 0);
  s.execution.fused_attention = s.execution.fused_loss = false;
  const StageMemory plain = estimate(s, p).stages[0];
  EXPECT_EQ(item(plain, "attention probabilities"), 8.0 * 1024 * 1024 * 16 * 2);
  EXPECT_EQ(item(plain, "logits in float32"), 1024.0 * 32128 * 4);  // 32,001 rows in multiples of 128
}

TEST(States, FrozenWeightsHaveNoOptimizer) {
  Setting s = moe_setting();
  s.execution.frozen_weights = true;
  const StageMemory stage = estimate(s).stages[0];
  EXPECT_EQ(stage.state_bytes, item(stage, "parameters"));
}

// What a pattern in two steps holds between them: twice the rows that a rank sends, while nothing else is larger.
TEST(Activations, PatternsInTwoStepsHoldRowsBetweenThem) {
  Setting s = moe_setting();
  s.model.vocab_size = 8, s.model.num_layers = 1, s.model.num_dense_layers = 0, s.model.moe.router.top_k = 8, s.model.moe.expert_ffn = 64;
  s.layout.ep = 8;
  const double flat = estimate(s).allocated_bytes();
  const double rows = 1024.0 * 8 * 1024 * 2;
  for (const char* pattern : {"halo", "allgather_a2a"}) {
    s.layout.all_to_all = pattern;
    EXPECT_GT(estimate(s).allocated_bytes(), flat) << pattern;
    EXPECT_LE(estimate(s).allocated_bytes(), flat + 2 * rows) << pattern;
  }
  s.layout.all_to_all = "dedup";
  EXPECT_DOUBLE_EQ(estimate(s).allocated_bytes(), flat);
}

// Rows of the heaviest rank: counts exactly; a spread by the expected maximum.
TEST(Activations, ImbalanceRaisesTheHeaviestRank) {
  Setting s = moe_setting();
  s.layout.ep = 4;
  const double balanced = item(estimate(s).stages[0], "rows by expert");
  s.load.counts.assign(16, 1.0);
  EXPECT_DOUBLE_EQ(item(estimate(s).stages[0], "rows by expert"), balanced);
  s.load.counts[5] = 5;  // the second rank has 1 + 5 + 1 + 1 of 20, the mean is 5
  EXPECT_DOUBLE_EQ(item(estimate(s).stages[0], "rows by expert"), balanced * 8 / 5);
  s.load.counts.clear();
  s.load.cv = 0.2;
  s.load.cold_start_cv = 2;
  const MemoryEstimate e = estimate(s);
  EXPECT_GT(item(e.stages[0], "rows by expert"), balanced);
  EXPECT_GT(e.cold_start_needed_bytes, e.needed_bytes());
}

// The expected largest of 2 standard normals is 1 / sqrt(pi) = 0.564; Blom's quantile of 1.625 / 2.25 is 0.589. Of 64
// (tables of normal order statistics) 2.36; Blom's 2.35.
TEST(ExpertLoad, FollowsTheOrderStatisticsOfTheNormalDistribution) {
  EXPECT_NEAR(heaviest_rank(0.1, 2, 2), 1 + 0.1 * 0.589, 1e-3);
  EXPECT_NEAR(heaviest_rank(0.1, 64, 64), 1 + 0.1 * 2.35, 2e-3);
  EXPECT_NEAR(heaviest_rank(0.1, 256, 64), 1 + 0.05 * 2.35, 2e-3);  // four experts a rank: half the spread
  EXPECT_EQ(heaviest_rank(0.0, 64, 8), 1);
  EXPECT_EQ(heaviest_rank(100.0, 64, 8), 8);  // all rows on one rank
}

TEST(Feasible, SaysWhatDoesNotFit) {
  Setting s = moe_setting();
  s.layout.pp = 2, s.layout.dp = 4;
  const MemoryEstimate fits = estimate(s, {}, {.capacity_bytes = 80e9});
  EXPECT_TRUE(fits.feasible);
  EXPECT_THAT(fits.reasons, ::testing::IsEmpty());
  const MemoryEstimate not_ = estimate(s, {}, {.capacity_bytes = 1e9});
  EXPECT_FALSE(not_.feasible);
  ASSERT_THAT(not_.reasons, ::testing::SizeIs(2));
  EXPECT_THAT(not_.reasons[0],
              ::testing::MatchesRegex("stage 0 needs [0-9.]+ GB of 1.0: states [0-9.]+ GB, activations and buffers "
                                      "[0-9.]+ GB \\(2 chunks, 8 layers in flight\\)"));
  s.layout.swap.add(Swap::optimizer);
  const MemoryEstimate host = estimate(s, {}, {.host_capacity_bytes = 1e8});
  EXPECT_THAT(host.reasons[0], ::testing::HasSubstr("stage 0 swaps "));
}

TEST(Feasible, IsATableThatJsonCarries) {
  Setting s = moe_setting();
  s.layout.swap.add(Swap::optimizer);
  const MemoryEstimate e = estimate(s, model::find_kernels("megatron"), {.capacity_bytes = 1e9, .slots = true});
  EXPECT_EQ(nlohmann::json::parse(nlohmann::json(e).dump()).get<MemoryEstimate>(), e);
}

TEST(Feasible, ReservedAndOverheadsAreShownApart) {
  const Setting s = moe_setting();
  model::Kernels p;
  p.fragmentation = 0.1, p.context_bytes = 1e9, p.communicator_bytes = 1e8;
  const StageMemory stage = estimate(s, p).stages[0];
  EXPECT_DOUBLE_EQ(stage.reserved_bytes, 1.1 * stage.allocated_bytes);
  // The world, and one of all data ranks twice (with and without tensor ranks), the experts' replicas.
  EXPECT_DOUBLE_EQ(stage.needed_bytes, stage.reserved_bytes + 1e9 + 4e8);
}

// A million tokens a micro-batch and a vocabulary of a million: 4e12 bytes of float32 logits, far beyond 32 bits.
TEST(Feasible, CountsBeyond32Bits) {
  Setting s = moe_setting();
  s.model.vocab_size = 1 << 20;
  s.batch = {.sequence_length = 1 << 20, .micro_batch = 1, .global_batch = 1LL << 40};
  s.layout.dp = 1 << 20;
  s.num_devices = 1 << 20;
  const auto schedule = plan::make_schedule("1f1b", 1, 4);
  const double one = item(estimate_memory(s, schedule, {}).stages[0], "logits in float32");
  EXPECT_EQ(one, 4.0 * (1 << 20) * (1 << 20));
}

// The bound is for pruning: it must never be above the exact figure, whatever the setting.
TEST(LowerBound, IsNeverAboveTheEstimate) {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<int> values) { return values.begin()[random() % values.size()]; };
  const std::vector<std::string> profiles = model::kernels_names();
  int close = 0;
  constexpr int trials = 400;
  for (int trial = 0; trial < trials; ++trial) {
    Setting s = moe_setting();
    s.model.num_layers = pick({4, 7, 12});
    s.model.num_dense_layers = pick({0, 1, 3});
    if (pick({0, 1})) s.model.moe = {}, s.model.num_dense_layers = s.model.num_layers;
    s.model.mtp_depth = pick({0, 0, 1});
    auto& l = s.layout;
    const auto names = plan::schedule_names();
    l.schedule = names[random() % names.size()];
    l.pp = pick({1, 2, 4}), l.tp = pick({1, 2, 4}), l.cp = pick({1, 2}), l.dp = pick({1, 2, 4});
    if (l.schedule == "interleaved_1f1b" || l.schedule == "merged_1f1b") l.virtual_stages = pick({2, 3});
    l.sequence_parallel = pick({0, 1});
    const int stage_ranks = l.tp * l.cp * l.dp;
    l.ep = s.model.moe.num_experts > 0 && stage_ranks % 4 == 0 ? pick({1, 2, 4}) : 1;
    l.sharding = static_cast<Sharding>(pick({0, 1, 2, 3}));
    l.matrix_owners = pick({0, 1});
    l.recompute.bits = pick({0, 0, 1, 2, 8, 16, 32, 64 + 16, 128 + 16, 256, 4});
    l.recompute_layers = pick({0, 1});
    l.swap.bits = pick({0, 0, 1, 2, 3});
    s.load.cv = pick({0, 1}) * 0.3;
    s.precision.compute = pick({0, 1}) ? ComputeFormat::bfloat16 : ComputeFormat::mxfp8;
    s.num_devices = l.pp * stage_ranks;
    s.batch.global_batch = l.dp * pick({8, 12, 16});
    const model::Kernels p = model::find_kernels(profiles[random() % profiles.size()]);
    const double exact = estimate(s, p).needed_bytes(), bound = memory_lower_bound(s, p);
    ASSERT_LE(bound, exact * (1 + 1e-12)) << "trial " << trial << ", " << p.name;
    close += bound > 0.9 * exact;
  }
  EXPECT_GT(close, trials * 3 / 4);  // and worth having; V shapes hold more than it knows
}

}  // namespace
}  // namespace trireme::sim
