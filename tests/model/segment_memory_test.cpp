// What a run's segments keep and hold, read off the description, against nn's allocations counted by hand.
#include <random>

#include <gtest/gtest.h>

#include "allocations.h"
#include "model/kernels.h"

namespace trireme::model {
namespace {

struct Drawn {
  ModelSpec model;
  SegmentShape shape;
};

Drawn draw(std::mt19937& random) {
  const auto of = [&](std::initializer_list<int> list) { return list.begin()[random() % list.size()]; };
  Drawn d;
  ModelSpec& m = d.model;
  m.vocab_size = of({50, 1000, 32000});
  m.hidden = of({8, 96, 256, 1024});
  m.num_layers = 2, m.num_dense_layers = 1;
  m.dense_ffn = m.hidden * of({1, 2, 3}) + of({0, 8});
  const int kv = of({1, 2, 3});
  m.attention = {
      .num_heads = kv * of({1, 2, 4}), .num_kv_heads = kv, .head_dim = of({4, 16, 64}), .qk_norm = of({0, 1}) == 1};
  m.moe = {.num_experts = of({4, 8}),
           .expert_ffn = of({8, 48, 600}),
           .shared_ffn = of({0, 40, 64}),
           .router = {.top_k = of({1, 2, 3})}};
  SegmentShape& s = d.shape;
  s = {.sequences = of({1, 2, 4}),
       .sequence_length = of({7, 32, 256, 300, 1024}),
       .ep = of({1, 2, 4}),
       .dtype = of({0, 1}) == 1 ? DType::float64 : DType::float32,
       .threads = of({1, 2, 3, 16}),
       .training = of({0, 1, 1}) == 1};
  s.local_experts = m.moe.num_experts / s.ep;
  s.rows_sent = s.rows_received = s.tokens() * m.moe.router.top_k;
  if (s.ep > 1) s.rows_received = s.rows_sent * of({0, 1, 2, 3}) / 2 + of({0, 5});
  return d;
}

TEST(SegmentMemory, IsWhatNnAllocates) {
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    const auto [model, shape] = draw(random);
    const auto compare = [&](Segment segment, int layer) {
      const SegmentMemory described = segment_memory(model, segment, layer, shape),
                          allocated = by_allocation::segment_memory(model, segment, layer, shape);
      SCOPED_TRACE(fmt::format("draw {}, {} of layer {}", i, name_of(segment), layer));
      EXPECT_EQ(described.boundary.value, allocated.boundary.value);
      EXPECT_EQ(described.to_shared.value, allocated.to_shared.value);
      EXPECT_EQ(described.saved.value, allocated.saved.value);
      EXPECT_EQ(described.forward_workspace.value, allocated.forward_workspace.value);
      EXPECT_EQ(described.backward_workspace.value, allocated.backward_workspace.value);
      EXPECT_EQ(described.input_gradient.value, allocated.input_gradient.value);
      EXPECT_EQ(described.weight_work.value, allocated.weight_work.value);
      EXPECT_EQ(described.input_workspace.value, allocated.input_workspace.value);
      EXPECT_EQ(described.weight_workspace.value, allocated.weight_workspace.value);
    };
    compare(Segment::embed, -1);
    for (const int layer : {0, 1})
      for (const Segment segment : computing_segments(model, layer)) compare(segment, layer);
    compare(Segment::dispatch, 1);
    compare(Segment::head, -1);
    if (HasFailure()) return;
  }
}

// By hand for 64 tokens of 8 numbers in bfloat16 and no shared expert: what leaves is the stream, rows (2 a token) and
// float32 scores; a plain norm keeps its input and output in float32 and its scale.
TEST(SegmentMemory, OfPlainOperatorsIsThatOfTheirTape) {
  ModelSpec m{.vocab_size = 50, .hidden = 8, .num_layers = 2, .num_dense_layers = 1, .dense_ffn = 12};
  m.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4};
  m.moe = {.num_experts = 4, .expert_ffn = 6, .router = {.top_k = 2}};
  const SegmentShape shape{.sequences = 1,
                           .sequence_length = 64,
                           .rows_sent = 128,
                           .rows_received = 128,
                           .local_experts = 4,
                           .dtype = DType::bfloat16,
                           .fused = false};
  const SegmentMemory attention = segment_memory(m, Segment::attention, 1, shape),
                      mlp = segment_memory(m, Segment::mlp, 0, shape);
  EXPECT_EQ(attention.boundary.value, 64 * 8 * 2 + 128 * (8 * 2 + 4));
  EXPECT_EQ(attention.input_gradient.value, 64 * 8 * 2);
  // The norm in float32, its scale, its output; gate and up, silu of one half, the product.
  EXPECT_EQ(mlp.saved.value, 64 * (8 * 4 + 4 + 8 * 4 + 8 * 2 + (24 + 12 + 12) * 2));
  for (const Segment segment : computing_segments(m, 1)) {
    const SegmentMemory s = segment_memory(m, segment, 1, shape);
    EXPECT_GE(s.forward_workspace.value, 0) << name_of(segment);
    EXPECT_GE(s.backward_workspace.value, 0) << name_of(segment);
  }
  EXPECT_GT(mlp.backward_workspace.value, 0);
}

}  // namespace
}  // namespace trireme::model
