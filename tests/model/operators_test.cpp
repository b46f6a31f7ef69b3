#include "model/operators.h"

#include <gtest/gtest.h>

#include "model/kernels.h"
#include "model/parameters.h"

namespace trireme::model {
namespace {

ModelSpec spec_with_everything() {
  ModelSpec s;
  s.vocab_size = 1000;
  s.hidden = 64;
  s.num_layers = 3;
  s.num_dense_layers = 1;
  s.dense_ffn = 96;
  s.attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .qk_norm = true};
  s.moe.num_experts = 8;
  s.moe.expert_ffn = 24;
  s.moe.shared_ffn = 40;
  s.moe.router.top_k = 2;
  return s;
}

SegmentShape shape_of(const ModelSpec& s) {
  return {.sequences = 4,
          .sequence_length = 128,
          .rows_sent = 512 * s.moe.router.top_k,
          .rows_received = 512 * s.moe.router.top_k,
          .local_experts = s.moe.num_experts};
}

template <class Visit>
void each_segment(const ModelSpec& s, const Visit& visit) {
  visit(Segment::embed, -1);
  for (int layer = 0; layer < s.num_layers; ++layer) {
    for (const Segment segment : computing_segments(s, layer)) visit(segment, layer);
    if (s.is_moe(layer)) visit(Segment::dispatch, layer);
  }
  visit(Segment::head, -1);
}

// A matmul of n weights costs 2 n FLOPs a token forward and 4 n backward, so all of them cost 6 x the active matmul
// parameters; causal attention costs half of 4 S^2 heads head_dim forward and 2.5 times that backward.
TEST(Operators, FlopsAreThoseOfTheParameters) {
  const ModelSpec s = spec_with_everything();
  const SegmentShape shape = shape_of(s);
  double matmul = 0, attention = 0;
  each_segment(s, [&](Segment segment, int layer) {
    for (Pass pass : {Pass::forward, Pass::backward})
      for (const Operator& op : operators(s, segment, layer, pass, shape))
        (op.kind == OperatorKind::attention ? attention : matmul) += op.flops;
  });
  EXPECT_DOUBLE_EQ(matmul, 6.0 * 512 * static_cast<double>(count_parameters(s).active_matmul));
  EXPECT_DOUBLE_EQ(attention, 3.5 * s.num_layers * 4 * (4.0 * 128 * 128 * 4 * 16 / 2));
}

TEST(Operators, EvaluationHasNoHeadGradient) {
  const ModelSpec s = spec_with_everything();
  SegmentShape shape = shape_of(s);
  const auto flops = [&] {
    double sum = 0;
    for (const Operator& op : operators(s, Segment::head, -1, Pass::forward, shape)) sum += op.flops;
    return sum;
  };
  const double training = flops();
  shape.training = false;
  EXPECT_DOUBLE_EQ(training, 3 * flops());
  EXPECT_EQ(segment_memory(s, Segment::head, -1, shape).saved.value, 0);
}

TEST(Operators, EveryComputingSegmentLaunchesSomething) {
  const ModelSpec s = spec_with_everything();
  each_segment(s, [&](Segment segment, int layer) {
    for (Pass pass : {Pass::forward, Pass::backward}) {
      double launches = 0;
      for (const Operator& op : operators(s, segment, layer, pass, shape_of(s))) launches += op.launches;
      EXPECT_EQ(launches > 0, segment != Segment::dispatch) << name_of(segment);
    }
  });
}

// The parallel loops of nn/fused_*.cpp. Forward: norm and projection, attention, output projection and what follows it
// up to the router; the sort and the gather of rows. Backward: from the rows to the attention's output, its weight's
// and the router's; attention; rotation and projection, and its weight. Feed-forwards: one forward; backward inputs,
// weights.
TEST(Operators, CallsAreTheLoopsOfTheFusedKernels) {
  ModelSpec s = spec_with_everything();
  SegmentShape shape = shape_of(s);
  const auto calls = [&](Segment segment, int layer, Pass pass) {
    double sum = 0;
    for (const Operator& op : operators(s, segment, layer, pass, shape)) sum += op.launches;
    return sum;
  };
  using enum Segment;
  EXPECT_EQ(calls(attention, 0, Pass::forward), 3);
  EXPECT_EQ(calls(attention, 0, Pass::backward), 5);
  EXPECT_EQ(calls(mlp, 0, Pass::forward), 2);
  EXPECT_EQ(calls(mlp, 0, Pass::backward), 4);
  EXPECT_EQ(calls(attention, 1, Pass::forward), 5);
  EXPECT_EQ(calls(attention, 1, Pass::backward), 6);
  for (const Segment gated : {shared, experts}) {
    EXPECT_EQ(calls(gated, 1, Pass::forward), 1);
    EXPECT_EQ(calls(gated, 1, Pass::backward), 2);
  }
  EXPECT_EQ(calls(combine, 1, Pass::forward), 1);
  EXPECT_EQ(calls(combine, 1, Pass::backward), 1);
  s.moe.router.aux_loss_coefficient = 0.01;  // a loop over the scores of its own
  EXPECT_EQ(calls(attention, 1, Pass::forward), 6);
  // Two chunks of 512 tokens: norm and logits, gradients of weight, input and norm.
  shape.sequences = 8;
  EXPECT_EQ(calls(head, -1, Pass::forward), 2 * 5);
  EXPECT_EQ(calls(head, -1, Pass::backward), 1);
  EXPECT_EQ(find_kernels("trireme").loss_chunk_tokens, head_chunk_tokens);
  EXPECT_EQ(find_kernels("trireme_device").loss_chunk_tokens, head_chunk_tokens);
}

// 512 tokens of 64, 1,024 rows, float32. The permutation reads tokens and writes rows; the combine reads rows, stream
// and shared output, and writes the sum.
TEST(Operators, RowsArePassedOverOnce) {
  const ModelSpec s = spec_with_everything();
  const auto bytes = [&](Segment segment, Pass pass, Part part) {
    double sum = 0;
    for (const Operator& op : operators(s, segment, 1, pass, shape_of(s)))
      if (op.part == part) sum += op.bytes;
    return sum;
  };
  EXPECT_EQ(bytes(Segment::attention, Pass::forward, Part::permute), (512 + 1024) * 64 * 4);
  EXPECT_EQ(bytes(Segment::combine, Pass::forward, Part::permute), (1024 + 3 * 512) * 64 * 4);
  EXPECT_EQ(bytes(Segment::combine, Pass::backward, Part::permute), (1024 + 512) * 64 * 4);
  // Gate and up, and their product.
  EXPECT_EQ(bytes(Segment::shared, Pass::forward, Part::activation), 3 * 512 * 40 * 4);
}

// The backward begins with the last operator, and a matmul with its input's gradient; a weight gradient is rows x
// columns of the weight, summed over tokens.
TEST(Operators, BackwardsRunFromTheEnd) {
  const ModelSpec s = spec_with_everything();
  const auto list = operators(s, Segment::shared, 1, Pass::backward, shape_of(s));
  ASSERT_EQ(list.size(), 5u);
  EXPECT_STREQ(list[0].what, "shared expert's second matmul");
  EXPECT_EQ(list[0].pass, OperatorPass::input_gradient);
  EXPECT_EQ(list[1].pass, OperatorPass::weight_gradient);
  EXPECT_EQ(list[1].m, 64);
  EXPECT_EQ(list[1].n, 40);
  EXPECT_EQ(list[1].k, 512);
  EXPECT_STREQ(list[2].what, "activation");
  EXPECT_STREQ(list[3].what, "shared expert's first matmul");
}

// Plain operators: router and permutation are many operators of the framework.
TEST(Operators, PlainOnesLaunchMore) {
  const ModelSpec s = spec_with_everything();
  SegmentShape shape = shape_of(s);
  const auto calls = [&] {
    double sum = 0;
    for (const Operator& op : operators(s, Segment::attention, 1, Pass::forward, shape)) sum += op.launches;
    return sum;
  };
  const double fused = calls();
  shape.fused = false, shape.dtype = DType::bfloat16;
  EXPECT_GT(calls(), 4 * fused);
}

// By hand for 512 tokens, hidden 64, float32: a stream is 128 KiB. The mlp keeps its input, a scale a token and the
// pre-activations of gate and up (2 x 96 a token).
TEST(SegmentMemory, DenseLayerByHand) {
  const ModelSpec s = spec_with_everything();
  const SegmentMemory m = segment_memory(s, Segment::mlp, 0, shape_of(s));
  EXPECT_EQ(m.boundary.value, 512 * 64 * 4);
  EXPECT_EQ(m.saved.value, 512 * (64 + 1 + 2 * 96) * 4);
  EXPECT_EQ(m.input_gradient.value, 512 * 64 * 4);
}

TEST(SegmentMemory, GrowsWithTheRowsReceived) {
  const ModelSpec s = spec_with_everything();
  SegmentShape shape = shape_of(s);
  shape.ep = 2, shape.local_experts = 4;
  const SegmentMemory even = segment_memory(s, Segment::experts, 1, shape);
  shape.rows_received *= 2;
  const SegmentMemory twice = segment_memory(s, Segment::experts, 1, shape);
  // A row more: its input and score, and gate and up of 24.
  EXPECT_EQ((twice.saved - even.saved).value, 1024 * (64 + 1 + 48) * 4);
  shape.rows_received = 0;
  EXPECT_EQ(segment_memory(s, Segment::experts, 1, shape).saved.value, 0);
}

// 512 tokens, hidden 64, a shared expert of 40: its input (which attention gives beside its boundary), gate and up.
TEST(SegmentMemory, SharedExpertByHand) {
  ModelSpec s = spec_with_everything();
  const SegmentMemory m = segment_memory(s, Segment::shared, 1, shape_of(s));
  EXPECT_EQ(m.boundary.value, 512 * 64 * 4);
  EXPECT_EQ(m.saved.value, 512 * (64 + 2 * 40) * 4);
  EXPECT_EQ(m.input_gradient.value, 512 * 64 * 4);
  EXPECT_EQ(segment_memory(s, Segment::attention, 1, shape_of(s)).to_shared.value, 512 * 64 * 4);
  s.moe.shared_ffn = 0;
  EXPECT_EQ(segment_memory(s, Segment::attention, 1, shape_of(s)).to_shared.value, 0);
}

TEST(ComputingSegments, AreThoseOfTheLayersKind) {
  ModelSpec s = spec_with_everything();
  using enum Segment;
  EXPECT_EQ(computing_segments(s, 0), (std::vector{attention, mlp}));
  EXPECT_EQ(computing_segments(s, 1), (std::vector{attention, shared, experts, combine}));
  s.moe.shared_ffn = 0;
  EXPECT_EQ(computing_segments(s, 1), (std::vector{attention, experts, combine}));
}

}  // namespace
}  // namespace trireme::model
