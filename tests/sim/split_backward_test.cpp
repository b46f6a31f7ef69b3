// A backward in two halves: prices and memory of its actions against those of the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "plan/memory_curve.h"
#include "platform/platform_file.h"
#include "sim/memory_cost.h"
#include "sim/price.h"

namespace trireme::sim {
namespace {

using plan::ActionKind;
using plan::BufferKind;
using plan::Segment;

plan::RunSpec run_of(const std::string& schedule) {
  plan::RunSpec r;
  r.model = {.name = "m",
             .vocab_size = 50,
             .hidden = 8,
             .num_layers = 4,
             .num_dense_layers = 1,
             .dense_ffn = 12,
             .attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4},
             .moe = {.num_experts = 4, .expert_ffn = 6, .shared_ffn = 4, .router = {.top_k = 2}}};
  r.layout.schedule = schedule;
  r.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = 4};
  return r;
}

// Seconds of the backward actions of each segment of micro-batch 1 on stage 0, by layer.
std::map<std::pair<Segment, int>, double> seconds_of_backwards(const std::string& schedule) {
  const plan::RunSpec run = run_of(schedule);
  const plan::Plan plan = plan::make_training_plan(run, {.pp = 2});
  const plan::Costs costs = price(plan, run, platform::default_platform()).costs;
  std::map<std::pair<Segment, int>, double> out;
  for (const plan::Action& a : plan.stages[0].actions)
    if (a.mb == 1 && a.segment != Segment::none && a.pass == plan::Pass::backward && a.lane == plan::Lane::compute)
      out[{a.segment, a.layer}] += costs.stages[0].action_s[a.id];
  return out;
}

TEST(SplitBackward, CostsAsMuchAsTheWhole) {
  const auto whole = seconds_of_backwards("1f1b"), halves = seconds_of_backwards("zero_bubble_h1");
  ASSERT_EQ(whole.size(), halves.size());
  for (const auto& [segment, seconds] : whole)
    EXPECT_NEAR(halves.at(segment), seconds, 1e-9 * seconds) << static_cast<int>(segment.first);
}

// An embedding has a weight gradient only, and combine none.
TEST(SplitBackward, AnEndHasItsWorkInOneHalf) {
  const plan::RunSpec run = run_of("zero_bubble_h1");
  const plan::Plan plan = plan::make_training_plan(run, {.pp = 2});
  const plan::Costs costs = price(plan, run, platform::default_platform()).costs;
  for (const plan::Action& a : plan.stages[0].actions) {
    const double seconds = costs.stages[0].action_s[a.id];
    if (a.kind == ActionKind::input_gradient) {
      EXPECT_EQ(seconds > 0, a.segment != Segment::embed) << plan::describe(a);
    }
    if (a.kind == ActionKind::weight_gradient) {
      EXPECT_GT(seconds, 0) << plan::describe(a);
    }
  }
}

// What nn keeps is held against its allocator in tests/nn/memory_test.cpp; here what follows from the shapes alone.
TEST(SplitBackward, WhatAWeightGradientKeeps) {
  const plan::RunSpec run = run_of("zero_bubble_h1");
  model::SegmentShape shape = segment_shape(run, {.pp = 2}, 1, true);
  for (const bool fused : {true, false}) {
    shape.fused = fused;
    EXPECT_EQ(model::segment_memory(run.model, Segment::combine, 1, shape).weight_work.value, 0);
    // The table's rows are added to by the gradient of what came out of it, 16 x 8 in float32: it is handed on.
    EXPECT_EQ(model::segment_memory(run.model, Segment::embed, -1, shape).weight_work.value, 4 * 16 * 8);
    // Plain operators do both halves in the first; tiled kernels put the weights' half off.
    EXPECT_EQ(model::segment_memory(run.model, Segment::mlp, 0, shape).weight_work.value > 0, fused);
  }
}

// Weight work lies in memory from its input gradient to its weight gradient. Stage 0's grid is
// F0 F1 I0 W0 F2 I1 W1 F3 I2 W2 I3 W3; the second stage's F0 I0 F1 I1 W0 ... holds that of two micro-batches at once.
TEST(SplitBackward, WeightWorkIsInTheMemoryCurve) {
  const plan::RunSpec run = run_of("zero_bubble_h1");
  const plan::Plan plan = plan::make_training_plan(run, {.pp = 2});
  plan::Costs costs = price(plan, run, platform::default_platform()).costs;
  // Nothing but it counts: a byte a buffer.
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    auto& of_stage = costs.stages[s];
    of_stage.constant_bytes = 0;
    of_stage.action_workspace_bytes.assign(of_stage.action_workspace_bytes.size(), 0);
    for (std::size_t b = 0; b < of_stage.buffer_bytes.size(); ++b)
      of_stage.buffer_bytes[b] = plan.stages[s].buffers[b].kind == BufferKind::weight_work ? 1 : 0;
  }
  const SimResult result = simulate(plan, costs, {});
  // Stage 0: embed, attention, mlp; attention, shared, experts. Stage 1: two layers of the latter and the head.
  EXPECT_EQ(result.memory[0].peak_bytes, 6);
  EXPECT_EQ(result.memory[1].peak_bytes, 2 * 7);
  EXPECT_EQ(result.memory[0].points.back().bytes, 0);
  EXPECT_EQ(result.memory[1].points.back().bytes, 0);
}

}  // namespace
}  // namespace trireme::sim
