#include "model/operators.h"

#include <algorithm>

#include "base/errors.h"

// Legend: T tokens, D hidden, H query heads, G key/value heads, h head_dim, W = (H + 2G) h, E experts, K top-k,
// R rows, F ffn, V vocabulary. Launches are counted where a kernel starts its threads: several operators that share a
// kernel have one between them.
namespace trireme::model {
namespace {

class OperatorList {
 public:
  OperatorList(const ModelSpec& spec, int layer, const SegmentShape& shape)
      : spec_(spec),
        shape_(shape),
        size_(size_of(shape.dtype)),
        tokens_(shape.tokens()),
        hidden_(spec.hidden),
        moe_(layer >= 0 && spec.is_moe(layer)) {}

  std::vector<FusedOperator> list;

  void embed(Pass pass) {
    if (pass == Pass::forward) memory("embedding lookup", 2.0 * tokens_ * hidden_);
    if (pass == Pass::backward) memory("embedding gradient", 3.0 * tokens_ * hidden_);
  }

  void attention(Pass pass) {
    const AttentionSpec& a = spec_.attention;
    const std::int64_t inner = std::int64_t{a.num_heads} * a.head_dim;
    const std::int64_t kv = std::int64_t{a.num_kv_heads} * a.head_dim, width = inner + 2 * kv;
    const double heads_bytes = (a.qk_norm ? 3.0 : 2.0) * tokens_ * (inner + kv);
    if (pass == Pass::forward) {
      memory("norm", 2.0 * tokens_ * hidden_);
      gemm("q, k, v projection", tokens_, width, hidden_, 0);
      memory("rotary positions", heads_bytes, 0);
      attend(pass);
      memory("residual and norm", (moe_ ? 5.0 : 3.0) * tokens_ * hidden_);
      gemm("output projection", tokens_, hidden_, inner, 0);
      if (moe_) route_forward();
      return;
    }
    if (moe_) route_backward();
    memory("residual gradient", 2.0 * tokens_ * hidden_, moe_ ? 0 : 1);
    gemm("output projection, input gradient", tokens_, inner, hidden_, 0);
    gemm("output projection, weight gradient", hidden_, inner, tokens_);
    attend(pass);
    memory("rotary positions, gradient", heads_bytes);
    gemm("q, k, v projection, input gradient", tokens_, hidden_, width, 0);
    memory("norm, gradient", 7.0 * tokens_ * hidden_, 0);
    gemm("q, k, v projection, weight gradient", width, hidden_, tokens_);
  }

  void experts(Pass pass) {
    if (shape_.local_experts > 0)
      gated(pass, shape_.rows_received, spec_.moe.expert_ffn, shape_.local_experts, /*scored=*/true);
  }

  void shared(Pass pass) { gated(pass, tokens_, spec_.moe.shared_ffn, 1, /*scored=*/false); }

  void combine(Pass pass) {
    const double shared = spec_.moe.shared_ffn > 0 ? 1.0 * tokens_ * hidden_ : 0.0;
    if (pass == Pass::forward) memory("sum of the experts", (shape_.rows_sent + 2.0 * tokens_) * hidden_ + shared);
    if (pass == Pass::backward) memory("gradient to the experts", (shape_.rows_sent + tokens_) * 1.0 * hidden_);
  }

  void mlp(Pass pass) {
    memory("norm", 2.0 * tokens_ * hidden_);
    gated(pass, tokens_, spec_.dense_ffn, 1, /*scored=*/false);
    if (pass == Pass::backward) memory("norm, gradient", 5.0 * tokens_ * hidden_);
  }

  void head(Pass pass) {
    const auto vocab = spec_.vocab_size;
    const int chunks = static_cast<int>((tokens_ + head_chunk_tokens - 1) / head_chunk_tokens);
    if (pass == Pass::backward) return memory("stored gradient", 0);
    memory("norm", 2.0 * tokens_ * hidden_, chunks);
    gemm("logits", tokens_, vocab, hidden_, chunks);
    memory("softmax", 1.0 * tokens_ * vocab, 0);
    if (!shape_.training) return;
    memory("logits, gradient", 2.0 * tokens_ * vocab, 0);
    gemm("head, weight gradient", vocab, hidden_, tokens_, chunks);
    gemm("head, input gradient", tokens_, hidden_, vocab, chunks);
    memory("norm, gradient", 3.0 * tokens_ * hidden_, chunks);
  }

 private:
  void memory(const char* what, double elements, int launches = 1) {
    list.push_back(
        {.kind = FusedKind::memory, .what = what, .bytes = Bytes(elements * size_), .launches = launches});
  }

  void gemm(const char* what, std::int64_t m, std::int64_t n, std::int64_t k, int launches = 1) {
    list.push_back({.kind = FusedKind::gemm,
                    .what = what,
                    .m = m,
                    .n = n,
                    .k = k,
                    .flops = Flops(2.0 * m * n * k),
                    .bytes = Bytes(size_ * (1.0 * m * k + 1.0 * k * n + 1.0 * m * n)),
                    .launches = launches});
  }

  void grouped(const char* what, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t groups, int launches) {
    list.push_back({.kind = FusedKind::grouped_gemm,
                    .what = what,
                    .m = m,
                    .n = n,
                    .k = k,
                    .groups = groups,
                    .flops = Flops(2.0 * m * n * k),
                    .bytes = Bytes(size_ * (1.0 * m * k + 1.0 * groups * k * n + 1.0 * m * n)),
                    .launches = launches});
  }

  void attend(Pass pass) {
    const AttentionSpec& a = spec_.attention;
    const double length = static_cast<double>(shape_.sequence_length);
    const double forward = 2.0 * shape_.sequences * a.num_heads * length * length * a.head_dim;  // half of the square
    const double streams = a.num_heads * 2.0 + a.num_kv_heads * 2.0;                             // q, out; k, v
    list.push_back({.kind = FusedKind::attention,
                    .what = pass == Pass::forward ? "attention" : "attention, gradient",
                    .batch = shape_.sequences,
                    .heads = a.num_heads,
                    .kv_heads = a.num_kv_heads,
                    .sequence = shape_.sequence_length,
                    .head_dim = a.head_dim,
                    .backward = pass == Pass::backward,
                    .flops = Flops(forward * (pass == Pass::forward ? 1.0 : 2.5)),
                    .bytes = Bytes(size_ * tokens_ * a.head_dim * streams * (pass == Pass::forward ? 1.0 : 2.0))});
  }

  void route_forward() {
    const std::int64_t experts = spec_.moe.num_experts;
    const bool losses = spec_.moe.router.aux_loss_coefficient != 0 || spec_.moe.router.z_loss_coefficient != 0;
    gemm("router", tokens_, experts, hidden_, 0);
    memory("router scores", (losses ? 4.0 : 2.0) * tokens_ * experts, losses ? 1 : 0);
    memory("permutation", (tokens_ + shape_.rows_sent) * 1.0 * hidden_, 2);
  }

  void route_backward() {
    const std::int64_t experts = spec_.moe.num_experts;
    memory("permutation, gradient", (tokens_ + shape_.rows_sent) * 1.0 * hidden_);
    memory("router scores, gradient", 2.0 * tokens_ * experts, 0);
    gemm("router, input gradient", tokens_, hidden_, experts, 0);
    memory("second norm, gradient", 6.0 * tokens_ * hidden_, 0);
    gemm("router, weight gradient", experts, hidden_, tokens_);
  }

  // One group is a plain matmul.
  void product(const char* what, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t groups, int launches) {
    if (groups == 1) {
      gemm(what, m, n, k, launches);
    } else {
      grouped(what, m, n, k, groups, launches);
    }
  }

  void gated(Pass pass, std::int64_t rows, std::int64_t ffn, std::int64_t groups, bool scored) {
    const double activation = 3.0 * rows * ffn + (scored ? 1.0 * rows : 0.0);
    if (pass == Pass::forward) {
      product("gate and up", rows, 2 * ffn, hidden_, groups, 1);
      memory("activation", activation, 0);
      product("down", rows, hidden_, ffn, groups, 0);
      return;
    }
    product("down, input gradient", rows, ffn, hidden_, groups, 1);
    memory("activation, gradient", 2.0 * activation, 0);
    product("gate and up, input gradient", rows, hidden_, 2 * ffn, groups, 0);
    // A group's weight gradient sums over its own rows.
    product("gate and up, weight gradient", 2 * ffn * groups, hidden_, rows / groups, groups, 1);
    product("down, weight gradient", hidden_ * groups, ffn, rows / groups, groups, 0);
  }

  const ModelSpec& spec_;
  const SegmentShape& shape_;
  double size_;
  std::int64_t tokens_, hidden_;
  bool moe_;
};

}  // namespace

std::vector<FusedOperator> operators(const ModelSpec& spec, Segment segment, int layer, Pass pass,
                                const SegmentShape& shape) {
  OperatorList ops(spec, layer, shape);
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
