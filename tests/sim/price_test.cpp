#include "sim/price.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "platform/platform_file.h"
#include "sim/memory_cost.h"
#include "sim/rates/probed_rates.h"

namespace trireme::sim {
namespace {

using plan::ActionKind;

// Every rate is the same at every shape: 1 GFLOP/s, 1 GB/s, messages of 1 ms + 1 ns a byte, calls of 1 us.
platform::PlatformSpec flat_platform() {
  platform::PlatformSpec p;
  p.name = "flat";
  p.device.memory_bytes = 1e12;
  p.device.launch_s = 1e-6;
  p.device.peaks = {{.flops_per_s = 4e9}};
  p.device.gemm = {{.threads = 1, .m = {1}, .n = {1}, .k = {1}, .flops_per_s = {1e9}}};
  p.device.grouped_gemm = {{.threads = 1, .rows = {1}, .n = {1}, .k = {1}, .groups = {1}, .flops_per_s = {1e9}}};
  p.device.attention = {{.threads = 1, .sequence = {1}, .heads = {1}, .head_dim = {1}, .forward_flops_per_s = {1e9}, .backward_flops_per_s = {0.5e9}}};
  for (auto use : {platform::MemoryUse::copy, platform::MemoryUse::elementwise, platform::MemoryUse::optimizer})
    p.device.memory.push_back({.use = use, .threads = 1, .bytes = {1}, .bytes_per_s = {1e9}});
  p.host = {.cores = 4, .memory_bytes = 1e12};
  p.links = {{.level = "host", .latency_s = 1e-3, .bytes = {1}, .bytes_per_s = {1e9}}};
  return p;
}

plan::RunSpec run() {
  plan::RunSpec r;
  r.model = {.name = "m", .vocab_size = 50, .hidden = 8, .num_layers = 2, .num_dense_layers = 1, .dense_ffn = 12,
             .attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4},
             .moe = {.num_experts = 4, .expert_ffn = 6, .router = {.top_k = 2}}};
  r.layout.pp = 2;
  r.layout.dp = 2;
  r.layout.ep = 2;
  r.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = 4};
  r.device.threads = 1;
  return r;
}

TEST(OperatorCost, IsWorkOverRatePlusItsCalls) {
  const ProbedRates rates(flat_platform(), DType::float32, 1, 0);
  // 2000 FLOPs at 1 GFLOP/s are 2 us, and one call of 1 us.
  EXPECT_NEAR(operator_time({.kind = OperatorKind::matmul, .m = 10, .n = 10, .k = 10, .flops = 2000}, rates).value,
              3e-6, 1e-12);
  EXPECT_NEAR(
      operator_time(
          {.kind = OperatorKind::attention, .pass = OperatorPass::input_gradient, .flops = 2000, .launches = 2}, rates)
          .value,
      6e-6, 1e-12);
  EXPECT_NEAR(operator_time({.kind = OperatorKind::memory, .bytes = 5000, .launches = 3}, rates).value, 8e-6, 1e-12);
  EXPECT_NEAR(operator_time({.kind = OperatorKind::memory, .bytes = 0, .launches = 1}, rates).value, 1e-6, 1e-12);
}

class Price : public testing::Test {
 protected:
  plan::RunSpec run_ = run();
  platform::PlatformSpec platform_ = flat_platform();
  plan::Mesh mesh_{.pp = 2, .dp = 2, .ep = 2};
  plan::Plan plan_ = plan::make_training_plan(run_, mesh_);

  double seconds(const Priced& priced, int stage, ActionKind kind, model::Segment segment, model::Pass pass) const {
    for (const plan::Action& a : plan_.stages[stage].actions)
      if (a.kind == kind && a.segment == segment && a.pass == pass) return priced.costs.stages[stage].action_s[a.id];
    ADD_FAILURE() << "no such action";
    return 0;
  }
};

// docs/price.md explains every term, which names its section once: in `formula`.
TEST_F(Price, EveryTermNamesItsFormulasPlaceOnce) {
  const Priced priced = price(plan_, run_, platform_);
  EXPECT_GT(priced.terms.size(), 50U);
  for (const Term& t : priced.terms) {
    EXPECT_TRUE(t.formula.starts_with("price.md#")) << t.what << ": " << t.source;
    EXPECT_EQ(t.source.find("price.md"), std::string::npos) << t.what << ": " << t.source;
  }
}

TEST_F(Price, SegmentsAreTheSumOfTheirOperators) {
  const Priced priced = price(plan_, run_, platform_);
  double expected = 0;
  const auto shape = segment_shape(run_, mesh_, 1);
  for (const Operator& op : model::operators(run_.model, model::Segment::mlp, 0, model::Pass::forward, shape))
    expected +=
        op.kind == OperatorKind::memory ? op.bytes / 1e9 + op.launches * 1e-6 : op.flops / 1e9 + op.launches * 1e-6;
  EXPECT_GT(expected, 0);
  EXPECT_NEAR(seconds(priced, 0, ActionKind::forward, model::Segment::mlp, model::Pass::forward), expected, 1e-12);
}

TEST_F(Price, AMeasuredSegmentCorrectsTheSum) {
  const double before = seconds(price(plan_, run_, platform_), 0, ActionKind::backward, model::Segment::mlp, model::Pass::backward);
  platform_.device.segments = {{.threads = 1, .segment = {"mlp"}, .layer = {"dense"}, .pass = {"backward"}, .factor = {1.5}}};
  const Priced priced = price(plan_, run_, platform_);
  EXPECT_NEAR(seconds(priced, 0, ActionKind::backward, model::Segment::mlp, model::Pass::backward), 1.5 * before, 1e-12);
}

TEST_F(Price, TakesTheCurvesOfTheThreadsThatARankHas) {
  // Four cores: four ranks have one thread each, two have two, which are twice as fast; a segment as a whole takes 1.5 times
  // its operators with one thread and 3 times with two, where its micro-batch has 16 tokens.
  platform::Device& d = platform_.device;
  d.gemm.push_back({.threads = 2, .m = {1}, .n = {1}, .k = {1}, .flops_per_s = {2e9}});
  for (auto use : {platform::MemoryUse::copy, platform::MemoryUse::elementwise, platform::MemoryUse::optimizer})
    d.memory.push_back({.use = use, .threads = 2, .bytes = {1}, .bytes_per_s = {2e9}});
  for (const int threads : {1, 2})
    d.segments.push_back({.threads = threads, .segment = {"mlp", "mlp"}, .layer = {"dense", "dense"}, .pass = {"forward", "forward"},
                          .tokens = {16, 64}, .experts = {2, 2}, .factor = {1.5 * threads, 9}});
  run_.device.threads = 0;
  double work_s = 0, launch_s = 0;
  for (const Operator& op :
       model::operators(run_.model, model::Segment::mlp, 0, model::Pass::forward, segment_shape(run_, mesh_, 1))) {
    work_s += (op.kind == OperatorKind::memory ? op.bytes : op.flops) / 1e9;
    launch_s += op.launches * 1e-6;
  }
  const auto mlp_s = [&] {
    plan_ = plan::make_training_plan(run_, mesh_);
    return seconds(price(plan_, run_, platform_), 0, ActionKind::forward, model::Segment::mlp, model::Pass::forward);
  };
  EXPECT_NEAR(mlp_s(), 1.5 * (work_s + launch_s), 1e-12);
  mesh_ = {.pp = 2};
  run_.layout.dp = run_.layout.ep = 1;
  EXPECT_NEAR(mlp_s(), 3 * (work_s / 2 + launch_s), 1e-12);
}

TEST_F(Price, MessagesAreBytesOverTheLink) {
  const Priced priced = price(plan_, run_, platform_);
  // 16 tokens x 8 wide in float32: 512 bytes.
  EXPECT_NEAR(seconds(priced, 0, ActionKind::send, model::Segment::none, model::Pass::forward), 1e-3 + 512e-9, 1e-12);
  // 32 routed rows, half to the other rank: 16 x 8 x 4 bytes of rows, 16 x 4 of scores, 2 experts' counts in int64.
  EXPECT_NEAR(seconds(priced, 1, ActionKind::all_to_all, model::Segment::dispatch, model::Pass::forward),
              3e-3 + (512 + 64 + 16) * 1e-9, 1e-12);
  EXPECT_NEAR(seconds(priced, 1, ActionKind::all_to_all, model::Segment::combine, model::Pass::forward), 1e-3 + 512e-9, 1e-12);
}

TEST_F(Price, ReductionsAreARingOfTheBucket) {
  const Priced priced = price(plan_, run_, platform_);
  for (int s = 0; s < 2; ++s)
    for (const plan::Action& a : plan_.stages[s].actions)
      if (a.kind == ActionKind::reduce) {
        // Two ranks: two messages of half of the bucket.
        const double bytes = plan_.stages[s].buckets[a.bucket].elements * 4;
        EXPECT_NEAR(priced.costs.stages[s].action_s[a.id], 2 * (1e-3 + bytes / 2 * 1e-9), 1e-12);
      }
}

TEST_F(Price, OptimizerMovesSevenNumbersAnElement) {
  const Priced priced = price(plan_, run_, platform_);
  // Stage 0: embedding 50 x 8; layer 0: q 8 x 8, k and v 4 x 8, o 8 x 8, two norms of 8; mlp 3 x 12 x 8.
  const double elements = 400 + 64 + 2 * 32 + 64 + 2 * 8 + 288;
  EXPECT_EQ(stage_parameters(run_, mesh_, plan_.stages[0]).total(), elements);
  EXPECT_NEAR(seconds(priced, 0, ActionKind::optimizer, model::Segment::none, model::Pass::forward), elements * 28e-9 + 1e-6, 1e-12);
}

TEST_F(Price, ACheckpointCopiesWhatTheFirstDataRankOwns) {
  // Stage 0 as above, 12 bytes each: value and two moments. With bfloat16 values 2 + 8, and 4 for the master.
  const double elements = 400 + 64 + 2 * 32 + 64 + 2 * 8 + 288;
  EXPECT_EQ(checkpoint_copy_bytes(run_, mesh_, plan_.stages[0]), 12 * elements);
  const double last = stage_parameters(run_, mesh_, plan_.stages[1]).total();
  EXPECT_EQ(checkpoint_copy_bytes(run_, mesh_, plan_.stages[1]), 12 * last);
  run_.device.dtype = DType::bfloat16;
  EXPECT_EQ(checkpoint_copy_bytes(run_, mesh_, plan_.stages[0]), 14 * elements);
  run_.device.dtype = DType::float32;
  run_.checkpoint.every = 10;
  EXPECT_EQ(predict(plan_, run_, platform_).prediction.checkpoint_copy_bytes, (std::vector<double>{12 * elements, 12 * last}));
  run_.checkpoint.every = 0;
  EXPECT_EQ(predict(plan_, run_, platform_).prediction.checkpoint_copy_bytes, (std::vector<double>{0, 0}));
  // The last stage's copy of a tied table belongs to the first; the last stage then has no table of its own to save.
  run_.model.tied_embeddings = true;
  EXPECT_EQ(checkpoint_copy_bytes(run_, mesh_, plan_.stages[1]), 12 * (last - 50 * 8));
  run_.model.moe.router.selection_bias = true;
  EXPECT_EQ(checkpoint_copy_bytes(run_, mesh_, plan_.stages[1]), 12 * (last - 50 * 8) + 4 * 4);
}

TEST_F(Price, ConstantMemoryIsValuesGradientsAndMoments) {
  const double elements = stage_parameters(run_, mesh_, plan_.stages[1]).total();
  // Layer 1: attention as above with two norms; router 4 x 8; 2 of 4 experts, 3 x 6 x 8 each; final norm and head 50 x 8.
  EXPECT_EQ(elements, 64 + 2 * 32 + 64 + 2 * 8 + 32 + 2 * 144 + 8 + 400);
  EXPECT_EQ(price(plan_, run_, platform_).costs.stages[1].constant_bytes, 16 * elements);
  run_.device.dtype = DType::bfloat16;  // 2 value, 4 gradient, 4 master, 8 moments
  EXPECT_EQ(price(plan_, run_, platform_).costs.stages[1].constant_bytes, 18 * elements);
}

TEST_F(Price, BucketsHoldEveryElementOnce) {
  for (int s = 0; s < 2; ++s) {
    double in_buckets = 0;
    for (const plan::Bucket& b : plan_.stages[s].buckets) in_buckets += b.elements;
    EXPECT_EQ(in_buckets, stage_parameters(run_, mesh_, plan_.stages[s]).total()) << s;
  }
}

TEST_F(Price, ATiedHeadOnAnotherStageHasItsOwnCopy) {
  run_.model.tied_embeddings = true;
  plan_ = plan::make_training_plan(run_, mesh_);
  EXPECT_EQ(stage_parameters(run_, mesh_, plan_.stages[1]).total(), 64 + 2 * 32 + 64 + 2 * 8 + 32 + 2 * 144 + 8 + 400);
  const plan::Mesh one{.pp = 1, .dp = 2, .ep = 2};
  run_.layout.pp = 1;
  const plan::Plan whole = plan::make_training_plan(run_, one);
  // Both ends on one stage: one matrix.
  EXPECT_EQ(stage_parameters(run_, one, whole.stages[0]).total(), 400 + (64 + 64 + 64 + 16 + 288) + (64 + 64 + 64 + 16 + 32 + 288) + 8);
}

TEST_F(Price, ExplainsEachPriceWithItsParts) {
  const Priced priced = price(plan_, run_, platform_);
  const auto at = std::find_if(priced.terms.begin(), priced.terms.end(), [](const Term& t) { return t.what.find("forward experts") == 0; });
  ASSERT_NE(at, priced.terms.end());
  double sum = 0;
  for (auto part = at + 1; part != priced.terms.end() && part->what.starts_with("  "); ++part) sum += part->seconds;
  EXPECT_NEAR(sum, at->seconds, 1e-12);
}

TEST_F(Price, RanksOnDifferentHostsNeedANetwork) {
  platform_.host.ranks = 1;
  EXPECT_THROW(price(plan_, run_, platform_), ConfigError);
  platform_.links.push_back({.level = "network", .latency_s = 1, .bytes = {1}, .bytes_per_s = {1e9}});
  const Priced priced = price(plan_, run_, platform_);
  EXPECT_NEAR(seconds(priced, 0, ActionKind::send, model::Segment::none, model::Pass::forward), 1 + 512e-9, 1e-9);
}

TEST_F(Price, PredictionHasItsRates) {
  const Predicted p = predict(plan_, run_, platform_);
  EXPECT_GT(p.prediction.step_s, 0);
  EXPECT_NEAR(p.prediction.tokens_per_s, 64 / p.prediction.step_s, 1e-9);
  EXPECT_NEAR(p.prediction.peak_flops_per_s, 1e9, 1);  // four ranks share the host's 4 GFLOP/s
  EXPECT_EQ(p.prediction.ranks.size(), 4u);
  EXPECT_EQ(p.prediction.memory.size(), 2u);
  EXPECT_GT(p.prediction.memory[0].peak_bytes, p.priced.costs.stages[0].constant_bytes);
}

TEST_F(Price, EveryBufferIsFreedAndMemoryReturnsToItsConstant) {
  const Predicted p = predict(plan_, run_, platform_);
  for (int s = 0; s < 2; ++s)
    EXPECT_NEAR(p.prediction.memory[s].points.back().bytes, p.priced.costs.stages[s].constant_bytes, 1e-3) << s;
}

TEST_F(Price, WhatPassesAnExchangeIsCountedOnce) {
  // Dispatch: 32 rows come, 32 x 8 x 4 bytes and a score each; the residual stream, 16 x 8 x 4, is in the buffer sent, in
  // the one received, and is taken off while both are alive.
  const Priced priced = price(plan_, run_, platform_);
  for (const plan::Action& a : plan_.stages[1].actions) {
    if (a.kind != ActionKind::all_to_all || a.segment != model::Segment::dispatch || a.pass != model::Pass::forward) continue;
    EXPECT_EQ(priced.costs.stages[1].buffer_bytes[a.allocates[0]], 1024 + 128 + 512);
    EXPECT_EQ(priced.costs.stages[1].action_workspace_bytes[a.id], -512);
  }
}

TEST_F(Price, TheSharedExpertsInputIsABufferOfItsOwn) {
  run_.model.moe.shared_ffn = 5;
  plan_ = plan::make_training_plan(run_, mesh_);
  const Priced priced = price(plan_, run_, platform_);
  const plan::StageCosts& costs = priced.costs.stages[1];
  int found = 0;
  for (const plan::Action& a : plan_.stages[1].actions) {
    if (a.mb != 0) continue;
    for (const int b : a.allocates) {
      const plan::Buffer& buffer = plan_.stages[1].buffers[b];
      if (!buffer.to_shared && buffer.segment != model::Segment::shared) continue;
      ++found;
      // 16 tokens x 8 wide in float32 each way; kept: the input, and gate and up of 5. What comes to its backward is the
      // residual's gradient, which another buffer holds.
      const double expected = buffer.kind == plan::BufferKind::saved             ? 16 * (8 + 2 * 5) * 4
                              : buffer.to_shared && a.pass == model::Pass::backward ? 0
                                                                                    : 512;
      EXPECT_EQ(costs.buffer_bytes[b], expected) << plan::describe(a);
    }
    // The messages carry none of it.
    if (a.kind == ActionKind::all_to_all) EXPECT_EQ(costs.action_workspace_bytes[a.id], -512);
  }
  EXPECT_EQ(found, 5);  // input, output, saved; gradients of output and input
  const Predicted p = predict(plan_, run_, platform_);
  EXPECT_NEAR(p.prediction.memory[1].points.back().bytes, costs.constant_bytes, 1e-3);
}

TEST(ThreadsOfRank, ShareTheCores) {
  platform::PlatformSpec p = flat_platform();  // 4 cores
  plan::RunSpec r = run();
  r.device.threads = 0;
  EXPECT_EQ(threads_of_rank(r, p, 2), 2);
  EXPECT_EQ(threads_of_rank(r, p, 8), 1);
  p.host.ranks = 2;
  EXPECT_EQ(threads_of_rank(r, p, 8), 2);
  r.device.threads = 3;
  EXPECT_EQ(threads_of_rank(r, p, 8), 3);
  p.device.kind = "cuda";
  EXPECT_EQ(threads_of_rank(r, p, 8), 0);
}

}  // namespace
}  // namespace trireme::sim
