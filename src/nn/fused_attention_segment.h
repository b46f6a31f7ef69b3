// The attention segment's fused forward and backward: what they share, and what is kept between them.
// Legend: T tokens, D hidden, H query heads, G key/value heads, h head_dim, W = (H + 2G) h, E experts, K top-k,
// R = T * K rows.
#pragma once
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "nn/cpu/attention.h"
#include "nn/cpu/rotary.h"
#include "nn/cpu/routing.h"
#include "nn/fused_access.h"
#include "nn/fused_backward.h"

namespace trireme::nn::fused {

template <class T>
struct AttentionSegment {
  // Set by the constructors.
  const model::ModelSpec& spec;
  LayerParameters& p;
  at::Tensor selection_bias_E;
  std::int64_t num_sequences, tokens, hidden, heads, kv_heads, head_dim, width, inner;
  bool moe, shared;
  at::TensorOptions options;
  std::vector<DocumentSpan> spans;
  at::Tensor positions_T, valid_T, cosine, sine;

  // Kept for the backward: see each_kept.
  at::Tensor x_TD, scale1_T, qkv_TW, placed, head_scale, attended, lse_TH;
  at::Tensor x2_TD, scale2_T, logits_TE, slopes_PE;
  std::shared_ptr<const Routing> routing;
  at::Tensor experts_TK;

  // Of a forward.
  AttentionSegment(const SegmentContext& c, const at::Tensor& x, const Batch& batch)
      : AttentionSegment(c, x, batch, document_spans(batch),
                         c.rotary->up_to(batch.positions_BS.max().item<std::int64_t>())) {}
  // Of a backward: takes what the forward has kept.
  AttentionSegment(const SegmentContext& c, Saved&& saved)
      : AttentionSegment(c, saved.tensors["x"], saved.batch, std::move(saved.spans), *c.rotary) {
    each_kept([&](const char* name, at::Tensor& tensor) { tensor = saved.tensors.take(name); });
    if (p.q_norm == nullptr) placed = qkv_TW;
    routing = std::move(saved.routing);
    if (moe) experts_TK = routing->experts_TK;
  }

  // `saved`: filled; null for a forward without a backward.
  Boundary forward(const Boundary& in, const Batch& batch, Saved* saved);
  Boundary extend(const Boundary& in, const NewTokens& new_tokens, KeyValueCache::Layer& cache);
  // `work`: filled; null: adds the weights' gradients itself, each as soon as it can, and frees what it needed for
  // them.
  at::Tensor backward(const Boundary& gradient, const LossSeeds& seeds, WeightWork* work);  // gives dx

 private:
  AttentionSegment(const SegmentContext& c, const at::Tensor& x, const Batch& batch,
                   std::vector<DocumentSpan> documents, const RotaryTable& table)
      : spec(c.spec),
        p(*c.parameters),
        selection_bias_E(c.selection_bias_E),
        num_sequences(batch.positions_BS.size(0)),
        tokens(x.size(0)),
        hidden(x.size(1)),
        heads(spec.attention.num_heads),
        kv_heads(spec.attention.num_kv_heads),
        head_dim(spec.attention.head_dim),
        width((heads + 2 * kv_heads) * head_dim),
        inner(heads * head_dim),
        moe(p.router != nullptr),
        shared(moe && spec.moe.shared_ffn > 0),
        options(x.options()),
        spans(std::move(documents)),
        positions_T(batch.positions_BS.contiguous()),
        cosine(table.cosine),
        sine(table.sine),
        x_TD(x) {
    const bool losses = spec.moe.router.aux_loss_coefficient != 0 || spec.moe.router.z_loss_coefficient != 0;
    if (moe && losses && batch.documents_BS.defined()) valid_T = batch.documents_BS.ge(0).contiguous();
  }

  template <class Use>
  void each_kept(const Use& use) {
    use("x", x_TD);
    use("norm_scale", scale1_T);
    use("qkv", qkv_TW);
    if (p.q_norm != nullptr) use("placed_heads", placed), use("head_scale", head_scale);
    use("attended", attended);
    use("log_sum_exp", lse_TH);
    if (!moe) return;
    use("x_behind", x2_TD);
    use("ffn_norm_scale", scale2_T);
    use("router_logits", logits_TE);
    use("aux_slopes", slopes_PE);
  }

  void project_qkv();
  void attend();
  void attend_with_cached(const NewTokens& new_tokens, KeyValueCache::Layer& cache);
  void project_out(const at::Tensor& normed_TD, const at::Tensor& weights_TK);
  void permute(const at::Tensor& normed_TD, const at::Tensor& weights_TK, Boundary& out);
  void add_losses(Boundary& out);

  // The gradients of the outputs.
  struct Upstream {
    at::Tensor x_TD, normed_TD, rows_RD, scores_R;
    cpu::RouterSeeds seeds;
  };
  // Those of the outputs of the two matrices whose gradients are made of them: dx2 behind the output projection and, in
  // an MoE layer, the logits.
  struct Middle {
    at::Tensor dx2_TD, dlogits_TE, dattended;
  };

  Middle backward_out(const Upstream& up, const at::Tensor& normed_TD, at::Tensor& dnorm);
  at::Tensor backward_attend(const at::Tensor& dattended);
  struct NormGradients {
    at::Tensor norm, query, key;
  };
  NormGradients backward_qkv(const at::Tensor& dqkv, const at::Tensor& dx2_TD, const at::Tensor& dx_TD,
                             const at::Tensor& normed_TD);

  at::Tensor make(at::IntArrayRef sizes) const { return fresh(sizes, options); }
  const std::int64_t* positions() const { return positions_T.const_data_ptr<std::int64_t>(); }
  const bool* valid() const { return valid_T.defined() ? valid_T.const_data_ptr<bool>() : nullptr; }
  static T* data(const at::Tensor& t) { return t.mutable_data_ptr<T>(); }

  cpu::HeadLayout<T> layout() const {
    return {.query_heads = heads,
            .key_heads = kv_heads,
            .head_dim = head_dim,
            .cosine = cosine.const_data_ptr<T>(),
            .sine = sine.const_data_ptr<T>(),
            .query_norm = value_of<T>(p.q_norm),
            .key_norm = value_of<T>(p.k_norm),
            .eps = spec.norm_eps};
  }
  cpu::AttentionShape shape() const {
    return {
        .query_heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .sequence_length = tokens / num_sequences};
  }
  // With QK norm the raw heads are kept beside the placed ones; else heads are placed where they are.
  std::int64_t placed_stride() const { return p.q_norm != nullptr ? (heads + kv_heads) * head_dim : width; }
  cpu::Heads<const T> query() const { return {data(placed), placed_stride()}; }
  cpu::Heads<const T> key() const { return {data(placed) + inner, placed_stride()}; }
  cpu::Heads<const T> value() const { return {data(qkv_TW) + (heads + kv_heads) * head_dim, width}; }

  std::int64_t piece_length() const {
    return spec.moe.router.aux_loss_level == model::AuxLossLevel::sequence ? tokens / num_sequences : tokens;
  }
  bool in_losses(std::int64_t token) const { return valid() == nullptr || valid()[token]; }
  const double* slopes_of(std::int64_t token) const {
    if (!slopes_PE.defined() || !in_losses(token)) return nullptr;
    return slopes_PE.const_data_ptr<double>() + token / piece_length() * spec.moe.num_experts;
  }
};

}  // namespace trireme::nn::fused
