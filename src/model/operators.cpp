#include "model/operators.h"

#include <algorithm>

#include "base/errors.h"

// Legend: T tokens, D hidden, H query heads, G key/value heads, h head_dim, W = (H + 2G) h, E experts, K top-k,
// R rows, F ffn, V vocabulary. Launches are counted where a kernel starts its threads: several operators that share a
// kernel have one between them.
namespace trireme::model {
namespace {

constexpr OperatorPass forward = OperatorPass::forward, input_gradient = OperatorPass::input_gradient,
                       weight_gradient = OperatorPass::weight_gradient;

class SegmentOperators {
 public:
  SegmentOperators(const ModelSpec& spec, Segment segment, int layer, const SegmentShape& shape)
      : spec_(spec),
        segment_(segment),
        shape_(shape),
        size_(size_of(shape.dtype)),
        tokens_(shape.tokens()),
        hidden_(spec.hidden),
        moe_(layer >= 0 && spec.is_moe(layer)) {}

  std::vector<Operator> list;

  void embed(Pass pass) {
    if (pass == Pass::forward) memory(Part::head, forward, "embedding lookup", 2.0 * tokens_ * hidden_);
    if (pass == Pass::backward) memory(Part::head, input_gradient, "embedding gradient", 3.0 * tokens_ * hidden_);
  }

  void attention(Pass pass) {
    const AttentionSpec& a = spec_.attention;
    const std::int64_t inner = std::int64_t{a.num_heads} * a.head_dim;
    const std::int64_t kv = std::int64_t{a.num_kv_heads} * a.head_dim, width = inner + 2 * kv;
    const double heads_bytes = (a.qk_norm ? 3.0 : 2.0) * tokens_ * (inner + kv);
    if (pass == Pass::forward) {
      memory(Part::norm, forward, "norm", 2.0 * tokens_ * hidden_);
      gemm(Part::projection, forward, "q, k, v projection", tokens_, width, hidden_, 0);
      memory(Part::projection, forward, "rotary positions", heads_bytes, 0);
      attend(pass);
      memory(Part::norm, forward, "residual and norm", (moe_ ? 5.0 : 3.0) * tokens_ * hidden_);
      gemm(Part::projection, forward, "output projection", tokens_, hidden_, inner, 0);
      if (moe_) route_forward();
      return;
    }
    if (moe_) route_backward();
    memory(Part::norm, input_gradient, "residual gradient", 2.0 * tokens_ * hidden_, moe_ ? 0 : 1);
    gemm(Part::projection, input_gradient, "output projection, input gradient", tokens_, inner, hidden_, 0);
    gemm(Part::projection, weight_gradient, "output projection, weight gradient", hidden_, inner, tokens_);
    attend(pass);
    memory(Part::projection, input_gradient, "rotary positions, gradient", heads_bytes);
    gemm(Part::projection, input_gradient, "q, k, v projection, input gradient", tokens_, hidden_, width, 0);
    memory(Part::norm, input_gradient, "norm, gradient", 7.0 * tokens_ * hidden_, 0);
    gemm(Part::projection, weight_gradient, "q, k, v projection, weight gradient", width, hidden_, tokens_);
  }

  void experts(Pass pass) {
    if (shape_.local_experts > 0)
      gated(pass, shape_.rows_received, spec_.moe.expert_ffn, shape_.local_experts, /*scored=*/true);
  }

  void shared(Pass pass) { gated(pass, tokens_, spec_.moe.shared_ffn, 1, /*scored=*/false); }

  void combine(Pass pass) {
    const double shared = spec_.moe.shared_ffn > 0 ? 1.0 * tokens_ * hidden_ : 0.0;
    if (pass == Pass::forward) memory(Part::permute, forward, "sum of the experts", (shape_.rows_sent + 2.0 * tokens_) * hidden_ + shared);
    if (pass == Pass::backward) memory(Part::permute, input_gradient, "gradient to the experts", (shape_.rows_sent + tokens_) * 1.0 * hidden_);
  }

  void mlp(Pass pass) {
    memory(Part::norm, forward, "norm", 2.0 * tokens_ * hidden_);
    gated(pass, tokens_, spec_.dense_ffn, 1, /*scored=*/false);
    if (pass == Pass::backward) memory(Part::norm, input_gradient, "norm, gradient", 5.0 * tokens_ * hidden_);
  }

  void head(Pass pass) {
    const auto vocab = spec_.vocab_size;
    const int chunks = static_cast<int>((tokens_ + head_chunk_tokens - 1) / head_chunk_tokens);
    if (pass == Pass::backward) return memory(Part::head, input_gradient, "stored gradient", 0);
    memory(Part::norm, forward, "norm", 2.0 * tokens_ * hidden_, chunks);
    gemm(Part::head, forward, "logits", tokens_, vocab, hidden_, chunks);
    memory(Part::head, forward, "softmax", 1.0 * tokens_ * vocab, 0);
    if (!shape_.training) return;
    memory(Part::head, input_gradient, "logits, gradient", 2.0 * tokens_ * vocab, 0);
    gemm(Part::head, weight_gradient, "head, weight gradient", vocab, hidden_, tokens_, chunks);
    gemm(Part::head, input_gradient, "head, input gradient", tokens_, hidden_, vocab, chunks);
    memory(Part::norm, input_gradient, "norm, gradient", 3.0 * tokens_ * hidden_, chunks);
  }

 private:
  void add(Operator op) {
    op.segment = segment_;
    op.kernels = op.launches;
    list.push_back(op);
  }

  void memory(Part part, OperatorPass pass, const char* what, double elements, int launches = 1) {
    add({.what = what,
         .kind = OperatorKind::memory,
         .pass = pass,
         .part = part,
         .bytes = elements * size_,
         .launches = double(launches)});
  }

  // `m` of all groups together, which share n and k.
  void product(Part part, OperatorPass pass, const char* what, std::int64_t m, std::int64_t n, std::int64_t k,
               std::int64_t groups, int launches) {
    add({.what = what,
         .kind = OperatorKind::matmul,
         .pass = pass,
         .part = part,
         .m = double(m) / double(groups),
         .n = double(n),
         .k = double(k),
         .groups = double(groups),
         .flops = 2.0 * m * n * k,
         .bytes = size_ * (1.0 * m * k + 1.0 * groups * k * n + 1.0 * m * n),
         .launches = double(launches)});
  }

  void gemm(Part part, OperatorPass pass, const char* what, std::int64_t m, std::int64_t n, std::int64_t k,
            int launches = 1) {
    product(part, pass, what, m, n, k, 1, launches);
  }

  void attend(Pass pass) {
    const AttentionSpec& a = spec_.attention;
    const bool backward = pass == Pass::backward;
    const double length = static_cast<double>(shape_.sequence_length);
    const double flops = 2.0 * shape_.sequences * a.num_heads * length * length * a.head_dim;  // half of the square
    const double streams = a.num_heads * 2.0 + a.num_kv_heads * 2.0;                           // q, out; k, v
    add({.what = backward ? "attention, gradient" : "attention",
         .kind = OperatorKind::attention,
         .pass = backward ? input_gradient : forward,
         .part = Part::core,
         .flops = flops * (backward ? 2.5 : 1.0),
         .sequence = length,
         .heads = double(shape_.sequences) * a.num_heads,
         .head_dim = double(a.head_dim),
         .bytes = size_ * tokens_ * a.head_dim * streams * (backward ? 2.0 : 1.0)});
  }

  void route_forward() {
    const std::int64_t experts = spec_.moe.num_experts;
    const bool losses = spec_.moe.router.aux_loss_coefficient != 0 || spec_.moe.router.z_loss_coefficient != 0;
    gemm(Part::router, forward, "router", tokens_, experts, hidden_, 0);
    memory(Part::router, forward, "router scores", (losses ? 4.0 : 2.0) * tokens_ * experts, losses ? 1 : 0);
    memory(Part::permute, forward, "permutation", (tokens_ + shape_.rows_sent) * 1.0 * hidden_, 2);
  }

  void route_backward() {
    const std::int64_t experts = spec_.moe.num_experts;
    memory(Part::permute, input_gradient, "permutation, gradient", (tokens_ + shape_.rows_sent) * 1.0 * hidden_);
    memory(Part::router, input_gradient, "router scores, gradient", 2.0 * tokens_ * experts, 0);
    gemm(Part::router, input_gradient, "router, input gradient", tokens_, hidden_, experts, 0);
    memory(Part::norm, input_gradient, "second norm, gradient", 6.0 * tokens_ * hidden_, 0);
    gemm(Part::router, weight_gradient, "router, weight gradient", experts, hidden_, tokens_);
  }

  void gated(Pass pass, std::int64_t rows, std::int64_t ffn, std::int64_t groups, bool scored) {
    const Part feed_forward = segment_ == Segment::mlp ? Part::mlp : Part::experts;
    const double activation = 3.0 * rows * ffn + (scored ? 1.0 * rows : 0.0);
    if (pass == Pass::forward) {
      product(feed_forward, forward, "gate and up", rows, 2 * ffn, hidden_, groups, 1);
      memory(Part::activation, forward, "activation", activation, 0);
      product(feed_forward, forward, "down", rows, hidden_, ffn, groups, 0);
      return;
    }
    product(feed_forward, input_gradient, "down, input gradient", rows, ffn, hidden_, groups, 1);
    memory(Part::activation, input_gradient, "activation, gradient", 2.0 * activation, 0);
    product(feed_forward, input_gradient, "gate and up, input gradient", rows, hidden_, 2 * ffn, groups, 0);
    // A group's weight gradient sums over its own rows.
    product(feed_forward, weight_gradient, "gate and up, weight gradient", 2 * ffn * groups, hidden_, rows / groups, groups, 1);
    product(feed_forward, weight_gradient, "down, weight gradient", hidden_ * groups, ffn, rows / groups, groups, 0);
  }

  const ModelSpec& spec_;
  Segment segment_;
  const SegmentShape& shape_;
  double size_;
  std::int64_t tokens_, hidden_;
  bool moe_;
};

}  // namespace

std::vector<Operator> operators(const ModelSpec& spec, Segment segment, int layer, Pass pass,
                                const SegmentShape& shape) {
  SegmentOperators ops(spec, segment, layer, shape);
  switch (segment) {
    case Segment::embed:
      ops.embed(pass);
      break;
    case Segment::attention:
      ops.attention(pass);
      break;
    case Segment::shared:
      ops.shared(pass);
      break;
    case Segment::experts:
      ops.experts(pass);
      break;
    case Segment::combine:
      ops.combine(pass);
      break;
    case Segment::mlp:
      ops.mlp(pass);
      break;
    case Segment::head:
      ops.head(pass);
      break;
    case Segment::dispatch:
      break;  // communication only
    case Segment::none:
      TRIREME_CHECK(false, "no segment");
      break;
  }
  return ops.list;
}

}  // namespace trireme::model
