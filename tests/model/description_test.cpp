// The readings of one description against one another and against closed forms.
#include "model/description/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/flops.h"
#include "model/operators.h"

namespace trireme::model {
namespace {

// Hidden 64, 4 heads of 16 with 2 key/value heads; layer 0 dense, layer 1 with 8 experts of width 24 and a shared one.
ModelSpec small() {
  ModelSpec s{.vocab_size = 1000, .hidden = 64, .num_layers = 2, .num_dense_layers = 1, .dense_ffn = 96};
  s.attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 16};
  s.moe = {.num_experts = 8, .expert_ffn = 24, .shared_ffn = 40, .router = {.top_k = 2}};
  return s;
}

struct Described {
  ModelSpec model = small();
  Share share{.sequence_length = 512, .tokens = 512, .split_tokens = 512, .rows_sent = 1024, .rows = 1024};
  Precision precision;
  Execution execution;
  Kernels kernels;
  Subject subject() const { return {model, share, precision, execution, kernels}; }
  OperatorList operators(int layer) const {
    OperatorList out;
    layer_operators(subject(), layer, out);
    return out;
  }
};

double matmul_flops(const OperatorList& list) {
  double sum = 0;
  for (const Operator& op : list)
    if (op.kind == OperatorKind::matmul) sum += op.flops;
  return sum;
}

// A weight that a token is multiplied with costs 2 FLOPs forward and 4 backward; an expert's sees top-k of its share
// of the tokens, so that all of them cost what top-k experts do.
TEST(Description, MatmulsAreThoseOfTheWeights) {
  Described d;
  const double attention = 64 * (64 + 2 * 32) + 64 * 64, dense = 3 * 64 * 96, router = 64 * 8, shared = 3 * 64 * 40;
  EXPECT_DOUBLE_EQ(matmul_flops(d.operators(0)), 6 * 512 * (attention + dense));
  EXPECT_DOUBLE_EQ(matmul_flops(d.operators(1)), 6 * 512 * (attention + router + shared + 2 * 3 * 64 * 24));
  EXPECT_DOUBLE_EQ(elements(layer_weights(d.subject(), 1)).expert, 8 * 3 * 64 * 24);
  EXPECT_DOUBLE_EQ(elements(layer_weights(d.subject(), 1)).dense, attention + router + shared + 2 * 64);
  // The same matmuls with latents, a gate and biases: bias and norms multiply nothing.
  d.model.moe.latent_dim = 32, d.model.moe.expert_bias = true;
  EXPECT_DOUBLE_EQ(matmul_flops(d.operators(1)),
                   6 * 512 * (attention + router + shared + 2 * 64 * 32 + 2 * 3 * 32 * 24));
}

// Four tensor ranks have a quarter of the heads and widths, but at least one key/value head; norms and router whole.
TEST(Description, TensorRanksSplitTheMatrices) {
  Described d;
  d.share.tp = 4;
  const double attention = 64 * (16 + 2 * 16) + 16 * 64;
  EXPECT_DOUBLE_EQ(matmul_flops(d.operators(0)), 6 * 512 * (attention + 3 * 64 * 24));
  EXPECT_DOUBLE_EQ(elements(layer_weights(d.subject(), 0)).total(), attention + 3 * 64 * 24 + 2 * 64);
}

// bf16: a micro-batch's rows there and back, forward and backward; with etp's gathers inside the same two segments.
TEST(Description, MessagesLieBetweenTheirSegments) {
  Described d;
  d.share.ep = 4, d.share.etp = 2, d.share.rows = 2048;
  double dispatch = 0, combine = 0;
  for (const Operator& op : d.operators(1)) {
    if (op.kind != OperatorKind::collective) continue;
    EXPECT_EQ(op.part, Part::exchange);
    EXPECT_THAT(op.segment, ::testing::AnyOf(Segment::dispatch, Segment::combine));
    if (op.axis == Axis::ep) (op.segment == Segment::dispatch ? dispatch : combine) += op.message;
  }
  EXPECT_DOUBLE_EQ(dispatch, 2 * 1024 * 64 * 2);
  EXPECT_DOUBLE_EQ(combine, 2 * 1024 * 64 * 2);
}

// Each operator says where it is: what is before the dispatch needs no message, and what is apart is the shared expert
// and routed experts' weight gradients.
TEST(Description, OperatorsKnowTheirSegments) {
  Described d;
  d.share.ep = 4;
  for (const Operator& op : d.operators(1)) {
    if (op.part == Part::router) {
      EXPECT_EQ(op.segment, Segment::attention) << op.what;
    }
    const bool shared = op.segment == Segment::shared;
    EXPECT_TRUE(!std::string(op.what).starts_with("shared") || shared) << op.what;
    const bool weights = op.part == Part::experts && op.pass == OperatorPass::weight_gradient;
    if (op.kind == OperatorKind::matmul) {
      EXPECT_EQ(op.apart, shared || weights) << op.what;
    }
  }
  for (const Operator& op : d.operators(0)) EXPECT_THAT(op.segment, ::testing::AnyOf(Segment::attention, Segment::mlp));
}

// The convention of published counts: two FLOPs an element that a token meets (PaLM, appendix B).
TEST(Description, FlopsAreReadOffTheWeights) {
  const ModelSpec s = small();
  const FlopsPerToken f = layer_flops(s, 1, 512);
  EXPECT_DOUBLE_EQ(f.projections, 2 * (64 * (64 + 64) + 64 * 64));
  EXPECT_DOUBLE_EQ(f.router, 2 * 64 * 8);
  EXPECT_DOUBLE_EQ(f.routed_experts, 2 * 2 * 3 * 64 * 24);
  EXPECT_DOUBLE_EQ(f.shared_experts, 2 * 3 * 64 * 40);
}

// nn's fused kernels: each tensor that a layer's tape keeps is one segment's. nn's allocator holds the latter
// (tests/nn/memory_test.cpp, segment_memory_test.cpp).
TEST(Description, TriremesKernelsKeepWhatItsSegmentsKeep) {
  Described d;
  d.kernels = find_kernels("trireme");
  d.precision.activation_bytes = 4, d.precision.compute = ComputeFormat::float32;
  const SegmentShape shape{.sequences = 1, .sequence_length = 512, .rows_sent = 1024, .rows_received = 1024, .local_experts = 8};
  for (const int shared : {0, 40}) {
    d.model.moe.shared_ffn = shared;
    for (const int layer : {0, 1}) {
      Bytes kept(0);
      for (const Segment segment : computing_segments(d.model, layer))
        kept += segment_memory(d.model, segment, layer, shape).saved;
      EXPECT_DOUBLE_EQ(run_tape(layer_tape(d.subject(), layer)).saved, kept.value) << layer << " " << shared;
    }
  }
  // The head keeps its input's gradient.
  EXPECT_DOUBLE_EQ(run_tape(head_tape(d.subject())).saved, segment_memory(d.model, Segment::head, -1, shape).saved.value);
}

// nn's plain operators in bfloat16: bytes that torch.autograd.graph.saved_tensors_hooks counts while the operators of
// composite.cpp run on 4 sequences of 256 tokens. A dense layer's holds two norms' weights of 96 in float32, which no
// tape has; routing is sorted and inverted by operators of PyTorch's own, which keep a few numbers more.
TEST(Description, TriremesPlainOperatorsKeepWhatAutogradKeeps) {
  Described d;
  d.kernels = find_kernels("trireme_device");
  d.model.hidden = 96, d.model.dense_ffn = 200;
  d.model.attention = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 16};
  d.model.moe = {.num_experts = 8, .expert_ffn = 48, .router = {.top_k = 3}};
  d.share.sequences = 4, d.share.sequence_length = 256, d.share.tokens = d.share.split_tokens = 1024;
  d.share.rows_sent = d.share.rows = 3072;
  const auto kept = [&](int layer) { return run_tape(layer_tape(d.subject(), layer)).saved; };
  EXPECT_DOUBLE_EQ(kept(0), 4555520 - 2 * 96 * 4);
  const double routed = kept(1);
  EXPECT_NEAR(routed, 5141248, 0.01 * 5141248);
  d.model.moe.shared_ffn = 64;
  EXPECT_DOUBLE_EQ(kept(1) - routed, 5665536 - 5141248);
}

}  // namespace
}  // namespace trireme::model
