#include <gtest/gtest.h>

#include <cmath>

#include "nn/probe/compute_probe.h"
#include "nn/probe/segment_probe.h"

// What is measured differs from run to run, so only what must hold of any measurement is tested.
namespace trireme::nn {
namespace {

using model::Segment;

model::ModelSpec tiny(int dense_layers) {
  return {.name = "tiny", .vocab_size = 32, .hidden = 16, .num_layers = 3, .num_dense_layers = dense_layers, .dense_ffn = 24,
          .attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 8},
          .moe = {.num_experts = 4, .expert_ffn = 8, .shared_ffn = 8, .router = {.top_k = 2, .aux_loss_coefficient = 0.01}}};
}

std::vector<std::pair<Segment, int>> places(const std::vector<SegmentSample>& samples) {
  std::vector<std::pair<Segment, int>> out;
  for (const SegmentSample& s : samples) {
    EXPECT_GT(s.forward_s, 0);
    EXPECT_GT(s.backward_s, 0);
    out.push_back({s.segment, s.layer});
  }
  return out;
}

TEST(SegmentProbe, MeasuresOneLayerOfEachKindAndTheEnds) {
  const model::ModelSpec spec = tiny(2);
  const model::SegmentShape shape{.sequences = 1, .sequence_length = 16, .rows_sent = 32, .rows_received = 32, .local_experts = 4};
  const std::vector<std::pair<Segment, int>> expected = {
      {Segment::embed, -1}, {Segment::attention, 1}, {Segment::mlp, 1},   {Segment::attention, 2},
      {Segment::shared, 2},  {Segment::experts, 2},   {Segment::combine, 2}, {Segment::head, -1}};
  model::SegmentShape longer = shape;
  longer.sequences = 2, longer.rows_sent = longer.rows_received = 64;
  const std::vector<ShapeSamples> both = probe_segments(spec, {shape, longer}, {.quick = true});
  ASSERT_EQ(both.size(), 2U);
  for (const ShapeSamples& of_shape : both) {
    EXPECT_EQ(places(of_shape.segments), expected);
    // Not all experts get the same, and one of four that got all rows would make sqrt(3).
    EXPECT_GT(of_shape.load_cv, 0);
    EXPECT_LE(of_shape.load_cv, std::sqrt(3.0));
  }
}

TEST(SegmentProbe, TakesTheRowsOfAnExpertParallelRank) {
  // Two sources, two experts here, and a number of rows that neither divides.
  const model::ModelSpec spec = tiny(0);
  const model::SegmentShape shape{.sequences = 1, .sequence_length = 16, .rows_sent = 32, .rows_received = 33, .local_experts = 2, .ep = 2};
  const std::vector<std::pair<Segment, int>> expected = {
      {Segment::embed, -1},  {Segment::attention, 0}, {Segment::shared, 0},
      {Segment::experts, 0}, {Segment::combine, 0},   {Segment::head, -1}};
  EXPECT_EQ(places(probe_segments(spec, {shape}, {.quick = true}).at(0).segments), expected);
}

TEST(SegmentWork, DoesWholePassesAndSeparatesTheirPieces) {
  const model::SegmentShape shape{.sequences = 2, .sequence_length = 128, .rows_sent = 512, .rows_received = 512, .local_experts = 4};
  SegmentWork work(tiny(1), shape, {.quick = true});
  const SegmentWork::Result r = work.run(0.05);
  EXPECT_GT(r.pass_s, 0);
  double sum = 0;
  for (const double x : r.relative) sum += x;
  // Each piece's lengths are over that piece's mean, so all of them together have the mean 1.
  if (!r.relative.empty()) EXPECT_NEAR(sum / static_cast<double>(r.relative.size()), 1.0, 1e-9);
}

TEST(SegmentWork, NoiseQuantilesHaveTheMeanOne) {
  EXPECT_TRUE(noise_quantiles({}).empty());
  // Quantiles of 1, 3 at 0, 1/2, 1 are 1, 2, 3: their mean, linear between, is 2.
  const auto q = noise_quantiles({3, 1}, 3);
  ASSERT_EQ(q.size(), 3u);
  EXPECT_DOUBLE_EQ(q[0], 0.5);
  EXPECT_DOUBLE_EQ(q[1], 1.0);
  EXPECT_DOUBLE_EQ(q[2], 1.5);
}

TEST(ComputeProbe, HandOverTakesTime) { EXPECT_GT(probe_hand_over(0.01), 0); }

}  // namespace
}  // namespace trireme::nn
