#include <gtest/gtest.h>

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
      {Segment::experts, 2}, {Segment::combine, 2},   {Segment::head, -1}};
  EXPECT_EQ(places(probe_segments(spec, shape, {.quick = true})), expected);
}

TEST(SegmentProbe, TakesTheRowsOfAnExpertParallelRank) {
  // Two sources, two experts here, and a number of rows that neither divides.
  const model::ModelSpec spec = tiny(0);
  const model::SegmentShape shape{.sequences = 1, .sequence_length = 16, .rows_sent = 32, .rows_received = 33, .local_experts = 2, .ep = 2};
  const std::vector<std::pair<Segment, int>> expected = {
      {Segment::embed, -1}, {Segment::attention, 0}, {Segment::experts, 0}, {Segment::combine, 0}, {Segment::head, -1}};
  EXPECT_EQ(places(probe_segments(spec, shape, {.quick = true})), expected);
}

TEST(ComputeProbe, HandOverAndBusyWorkTakeTime) {
  EXPECT_GT(probe_hand_over(0.01), 0);
  EXPECT_GT(BusyWork({}).run(0.01), 0);
}

}  // namespace
}  // namespace trireme::nn
