#include <ATen/ATen.h>

#include <cstring>

#include "nn/cpu/attention.h"
#include "nn/cpu/gemm.h"
#include "nn/cpu/norm.h"
#include "nn/cpu/permute.h"
#include "nn/cpu/rotary.h"
#include "nn/cpu/routing.h"
#include "nn/cpu/tasks.h"
#include "nn/fused.h"
#include "nn/fused_access.h"
#include "nn/segment_node.h"

// Legend: T tokens, D hidden, H query heads, G key/value heads, h head_dim, W = (H + 2G) h, E experts, K top-k,
// R = T * K rows.
namespace trireme::nn::fused {
namespace {

using namespace cpu;

template <class T>
struct AttentionSegment {
  // Set by the constructor.
  const model::ModelSpec& spec;
  LayerParameters& p;
  at::Tensor selection_bias_E;
  std::int64_t num_sequences, tokens, hidden, heads, kv_heads, head_dim, width, inner;
  bool moe, shared;
  at::TensorOptions options;
  std::vector<DocumentSpan> spans;
  at::Tensor positions_T, valid_T, cosine, sine;

  // Kept for the backward.
  at::Tensor x_TD, scale1_T, qkv_TW, placed, head_scale, attended, lse_TH;
  at::Tensor x2_TD, scale2_T, logits_TE, experts_TK;
  std::shared_ptr<Routing> routing;
  std::vector<double> slopes;

  AttentionSegment(const SegmentContext& c, const at::Tensor& x, const Batch& batch)
      : spec(c.spec),
        p(*c.parameters),
        selection_bias_E(c.selection_bias_E),
        num_sequences(batch.tokens_BS.size(0)),
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
        spans(document_spans(batch)),
        positions_T(batch.positions_BS.contiguous()),
        x_TD(x) {
    if (batch.documents_BS.defined()) valid_T = batch.documents_BS.ge(0).contiguous();
    const RotaryTable& table = c.rotary->up_to(positions_T.max().item<std::int64_t>());
    cosine = table.cosine;
    sine = table.sine;
  }

  at::Tensor make(at::IntArrayRef sizes) const { return fresh(sizes, options); }
  const std::int64_t* positions() const { return positions_T.const_data_ptr<std::int64_t>(); }
  const bool* valid() const { return valid_T.defined() ? valid_T.const_data_ptr<bool>() : nullptr; }
  static T* data(const at::Tensor& t) { return t.mutable_data_ptr<T>(); }

  HeadLayout<T> layout() const {
    return {.query_heads = heads,
            .key_heads = kv_heads,
            .head_dim = head_dim,
            .cosine = cosine.const_data_ptr<T>(),
            .sine = sine.const_data_ptr<T>(),
            .query_norm = value_of<T>(p.q_norm),
            .key_norm = value_of<T>(p.k_norm),
            .eps = spec.norm_eps};
  }
  AttentionShape shape() const {
    return {
        .query_heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .sequence_length = tokens / num_sequences};
  }
  // With QK norm the raw heads are kept beside the placed ones; else heads are placed where they are.
  std::int64_t placed_stride() const { return p.q_norm != nullptr ? (heads + kv_heads) * head_dim : width; }
  Heads<const T> query() const { return {data(placed), placed_stride()}; }
  Heads<const T> key() const { return {data(placed) + inner, placed_stride()}; }
  Heads<const T> value() const { return {data(qkv_TW) + (heads + kv_heads) * head_dim, width}; }

  void project_qkv() {
    scale1_T = make({tokens});
    qkv_TW = make({tokens, width});
    placed = p.q_norm != nullptr ? make({tokens, placed_stride()}) : qkv_TW;
    if (p.q_norm != nullptr) head_scale = make({tokens, heads + kv_heads});
    const Tiles tiles(tokens);
    const at::Tensor scratch = make({at::get_num_threads(), tiles.size * hidden});
    parallel_tasks(tiles.count, [&](std::int64_t tile, int thread) {
      const std::int64_t begin = tiles.begin(tile), rows = tiles.length(tile);
      T *normed = data(scratch) + thread * tiles.size * hidden, *qkv = data(qkv_TW) + begin * width;
      norm_forward(rows, hidden, spec.norm_eps, data(x_TD) + begin * hidden, hidden, value_of<T>(p.attention_norm),
                   normed, hidden, data(scale1_T) + begin);
      gemm<T>(rows, width, hidden, {normed, hidden}, {value_of<T>(p.qkv), hidden, true}, T(0), qkv, width);
      if (p.qkv_bias != nullptr) add_bias(rows, width, value_of<T>(p.qkv_bias), qkv);
      place_heads(layout(), rows, positions() + begin, qkv, width, data(placed) + begin * placed_stride(),
                  placed_stride(), p.q_norm != nullptr ? data(head_scale) + begin * (heads + kv_heads) : nullptr);
    });
  }

  void attend() {
    attended = make({tokens, inner});
    lse_TH = make({tokens, heads});
    attention_forward<T>(shape(), spans, query(), key(), value(), data(attended), data(lse_TH));
  }

  // Output projection and residual; in an MoE layer also norm, router logits and the choice of experts.
  void project_out(const at::Tensor& normed_TD, const at::Tensor& weights_TK) {
    x2_TD = make({tokens, hidden});
    const std::int64_t num_experts = spec.moe.num_experts, top_k = spec.moe.router.top_k;
    if (moe) {
      scale2_T = make({tokens});
      logits_TE = make({tokens, num_experts});
      experts_TK = fresh({tokens, top_k}, options.dtype(at::kLong));
    }
    const float* bias = selection_bias_E.defined() ? selection_bias_E.const_data_ptr<float>() : nullptr;
    const Tiles tiles(tokens);
    parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
      const std::int64_t begin = tiles.begin(tile), rows = tiles.length(tile);
      T* x2 = data(x2_TD) + begin * hidden;
      std::memcpy(x2, data(x_TD) + begin * hidden, sizeof(T) * static_cast<std::size_t>(rows * hidden));
      gemm<T>(rows, hidden, inner, {data(attended) + begin * inner, inner}, {value_of<T>(p.o), inner, true}, T(1), x2,
              hidden);
      if (p.o_bias != nullptr) add_bias(rows, hidden, value_of<T>(p.o_bias), x2);
      if (!moe) return;
      T *normed = data(normed_TD) + begin * hidden, *logits = data(logits_TE) + begin * num_experts;
      norm_forward(rows, hidden, spec.norm_eps, x2, hidden, value_of<T>(p.ffn_norm), normed, hidden,
                   data(scale2_T) + begin);
      gemm<T>(rows, num_experts, hidden, {normed, hidden}, {value_of<T>(p.router), hidden, true}, T(0), logits,
              num_experts);
      route_rows(spec.moe.router, num_experts, bias, rows, logits,
                 experts_TK.mutable_data_ptr<std::int64_t>() + begin * top_k, data(weights_TK) + begin * top_k);
    });
  }

  std::int64_t piece_length() const {
    return spec.moe.router.aux_loss_level == model::AuxLossLevel::sequence ? tokens / num_sequences : tokens;
  }
  bool in_losses(std::int64_t token) const { return valid() == nullptr || valid()[token]; }
  const double* slopes_of(std::int64_t token) const {
    return slopes.empty() || !in_losses(token) ? nullptr
                                               : slopes.data() + token / piece_length() * spec.moe.num_experts;
  }

  void add_losses(Boundary& out) {
    const model::RouterSpec& router = spec.moe.router;
    if (router.aux_loss_coefficient == 0 && router.z_loss_coefficient == 0) return;
    const std::int64_t num_experts = spec.moe.num_experts;
    if (router.aux_loss_coefficient != 0)
      slopes = aux_slopes(router, num_experts, tokens, tokens / piece_length(),
                          experts_TK.const_data_ptr<std::int64_t>(), valid());
    const Tiles tiles(tokens);
    std::vector<RouterLosses> sums(static_cast<std::size_t>(tiles.count));
    parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
      RouterLosses& sum = sums[static_cast<std::size_t>(tile)];
      for (std::int64_t t = tiles.begin(tile); t < tiles.begin(tile) + tiles.length(tile); ++t) {
        if (!in_losses(t)) continue;
        const RouterLosses one = router_losses(router, num_experts, data(logits_TE) + t * num_experts, slopes_of(t));
        sum.aux += one.aux;
        sum.z += one.z;
      }
    });
    RouterLosses total;
    for (const RouterLosses& sum : sums) {
      total.aux += sum.aux;
      total.z += sum.z;
    }
    const auto doubles = at::TensorOptions().dtype(at::kDouble);
    if (router.aux_loss_coefficient != 0) out.aux_loss = at::full({}, total.aux, doubles);
    if (router.z_loss_coefficient != 0) out.z_loss = at::full({}, total.z, doubles);
  }

  void permute(const at::Tensor& normed_TD, const at::Tensor& weights_TK, Boundary& out) {
    const std::int64_t top_k = spec.moe.router.top_k, rows = tokens * top_k;
    routing = std::make_shared<Routing>();
    routing->order_R = fresh({rows}, experts_TK.options());
    routing->inverse_R = fresh({rows}, experts_TK.options());
    auto* order = routing->order_R.mutable_data_ptr<std::int64_t>();
    sort_slots(experts_TK.const_data_ptr<std::int64_t>(), rows, spec.moe.num_experts, order,
               routing->inverse_R.mutable_data_ptr<std::int64_t>(), routing->counts_E);
    out.rows_RD = make({rows, hidden});
    gather_rows<T>(rows, hidden, top_k, order, data(normed_TD), data(out.rows_RD));
    out.scores_R = make({rows});
    for (std::int64_t i = 0; i < rows; ++i) data(out.scores_R)[i] = data(weights_TK)[order[i]];
    out.routing = routing;
    if (shared) out.normed_TD = normed_TD;
  }

  Boundary forward(const Boundary& in) {
    Boundary out = in;
    project_qkv();
    attend();
    const at::Tensor normed_TD = moe ? make({tokens, hidden}) : at::Tensor();
    const at::Tensor weights_TK = moe ? make({tokens, spec.moe.router.top_k}) : at::Tensor();
    project_out(normed_TD, weights_TK);
    out.x_TD = x2_TD;
    if (!moe) return out;
    permute(normed_TD, weights_TK, out);
    add_losses(out);
    return out;
  }

  // The gradients of the outputs, in the order of Boundary.
  struct Upstream {
    at::Tensor x_TD, normed_TD, rows_RD, scores_R;
    RouterSeeds seeds;
  };

  // Of router, norm and permutation: adds to dx_TD, tile by tile, and then multiplies on to the attention's output.
  at::Tensor backward_out(const Upstream& up, const at::Tensor& dx_TD) {
    const std::int64_t num_experts = spec.moe.num_experts, top_k = spec.moe.router.top_k;
    const at::Tensor dattended = make({tokens, inner});
    const at::Tensor dlogits = moe ? make({tokens, num_experts}) : at::Tensor();
    const at::Tensor normed = moe ? make({tokens, hidden}) : at::Tensor();
    const Tiles tiles(tokens);
    const at::Tensor scratch = make({at::get_num_threads(), tiles.size * hidden});
    TilePartials<T> dnorm(tiles.count, hidden);
    parallel_tasks(tiles.count, [&](std::int64_t tile, int thread) {
      const std::int64_t begin = tiles.begin(tile), rows = tiles.length(tile);
      T* dx = data(dx_TD) + begin * hidden;
      std::memcpy(dx, data(up.x_TD) + begin * hidden, sizeof(T) * static_cast<std::size_t>(rows * hidden));
      if (moe) {
        T *dnormed = data(scratch) + thread * tiles.size * hidden, *dlogit = data(dlogits) + begin * num_experts;
        const std::int64_t* inverse = routing->inverse_R.template const_data_ptr<std::int64_t>() + begin * top_k;
        sum_slots(0, rows, hidden, top_k, inverse, data(up.rows_RD), nullptr,
                  up.normed_TD.defined() ? data(up.normed_TD) + begin * hidden : nullptr, dnormed);
        std::vector<T> dweights(static_cast<std::size_t>(top_k));
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t t = begin + r;
          for (std::int64_t k = 0; k < top_k; ++k)
            dweights[static_cast<std::size_t>(k)] = data(up.scores_R)[inverse[r * top_k + k]];
          route_row_backward(spec.moe.router, num_experts, data(logits_TE) + t * num_experts,
                             experts_TK.const_data_ptr<std::int64_t>() + t * top_k, dweights.data(), slopes_of(t),
                             in_losses(t) ? up.seeds : RouterSeeds{}, dlogit + r * num_experts);
        }
        gemm<T>(rows, hidden, num_experts, {dlogit, num_experts}, {value_of<T>(p.router), hidden}, T(1), dnormed,
                hidden);
        const T* x2 = data(x2_TD) + begin * hidden;
        norm_backward(rows, hidden, dnormed, hidden, x2, hidden, value_of<T>(p.ffn_norm), data(scale2_T) + begin, dx,
                      hidden, /*accumulate=*/true, dnorm.of(tile));
        norm_forward(rows, hidden, spec.norm_eps, x2, hidden, value_of<T>(p.ffn_norm), data(normed) + begin * hidden,
                     hidden, nullptr);
      }
      gemm<T>(rows, inner, hidden, {dx, hidden}, {value_of<T>(p.o), inner}, T(0), data(dattended) + begin * inner,
              inner);
    });
    if (moe) {
      dnorm.add_to(gradient_of<T>(p.ffn_norm));
      accumulate_tn(tokens, num_experts, hidden, data(dlogits), data(normed), gradient_of<T>(p.router));
    }
    accumulate_tn(tokens, hidden, inner, data(dx_TD), data(attended), gradient_of<T>(p.o));
    if (p.o_bias != nullptr) accumulate_columns(tokens, hidden, data(dx_TD), gradient_of<T>(p.o_bias));
    return dattended;
  }

  at::Tensor backward_attend(const at::Tensor& dattended) {
    const at::Tensor dqkv = make({tokens, width});
    T* d = data(dqkv);
    attention_backward<T>(shape(), spans, query(), key(), value(), data(attended), data(lse_TH), data(dattended),
                          {d, width}, {d + inner, width}, {d + (heads + kv_heads) * head_dim, width});
    return dqkv;
  }

  void backward_qkv(const at::Tensor& dqkv, const at::Tensor& dx_TD) {
    const at::Tensor normed = make({tokens, hidden});
    const Tiles tiles(tokens);
    const at::Tensor scratch = make({at::get_num_threads(), tiles.size * hidden});
    TilePartials<T> dnorm(tiles.count, hidden), dquery_norm(tiles.count, head_dim), dkey_norm(tiles.count, head_dim);
    parallel_tasks(tiles.count, [&](std::int64_t tile, int thread) {
      const std::int64_t begin = tiles.begin(tile), rows = tiles.length(tile);
      T *dnormed = data(scratch) + thread * tiles.size * hidden, *d = data(dqkv) + begin * width;
      const T* x = data(x_TD) + begin * hidden;
      place_heads_backward(layout(), rows, positions() + begin, d, width, data(qkv_TW) + begin * width, width,
                           p.q_norm != nullptr ? data(head_scale) + begin * (heads + kv_heads) : nullptr,
                           dquery_norm.of(tile), dkey_norm.of(tile));
      gemm<T>(rows, hidden, width, {d, width}, {value_of<T>(p.qkv), hidden}, T(0), dnormed, hidden);
      norm_backward(rows, hidden, dnormed, hidden, x, hidden, value_of<T>(p.attention_norm), data(scale1_T) + begin,
                    data(dx_TD) + begin * hidden, hidden, /*accumulate=*/true, dnorm.of(tile));
      norm_forward(rows, hidden, spec.norm_eps, x, hidden, value_of<T>(p.attention_norm), data(normed) + begin * hidden,
                   hidden, nullptr);
    });
    dnorm.add_to(gradient_of<T>(p.attention_norm));
    if (p.q_norm != nullptr) {
      dquery_norm.add_to(gradient_of<T>(p.q_norm));
      dkey_norm.add_to(gradient_of<T>(p.k_norm));
    }
    accumulate_tn(tokens, width, hidden, data(dqkv), data(normed), gradient_of<T>(p.qkv));
    if (p.qkv_bias != nullptr) accumulate_columns(tokens, width, data(dqkv), gradient_of<T>(p.qkv_bias));
  }

  at::Tensor backward(const std::vector<at::Tensor>& gradients) {
    Upstream up{.x_TD = or_zeros(gradients[0], {tokens, hidden}, options)};
    if (moe) {
      const std::int64_t rows = tokens * spec.moe.router.top_k;
      if (gradients[1].defined()) up.normed_TD = gradients[1].contiguous();
      up.rows_RD = or_zeros(gradients[2], {rows, hidden}, options);
      up.scores_R = or_zeros(gradients[3], {rows}, options);
      if (gradients[4].defined()) up.seeds.aux = gradients[4].item<double>();
      if (gradients[5].defined()) up.seeds.z = gradients[5].item<double>();
    }
    const at::Tensor dx_TD = make({tokens, hidden});
    const at::Tensor dqkv = backward_attend(backward_out(up, dx_TD));
    backward_qkv(dqkv, dx_TD);
    return dx_TD;
  }
};

template <class T>
Boundary run(const SegmentContext& c, const Boundary& in, const Batch& batch) {
  auto segment = [&] {
    at::NoGradGuard no_grad;
    return std::make_shared<AttentionSegment<T>>(c, in.x_TD.detach().contiguous(), batch);
  }();
  Boundary out;
  {
    at::NoGradGuard no_grad;
    out = segment->forward(in);
  }
  // The node may keep its own outputs' values, but not the tensors that carry its history.
  segment->x2_TD = segment->moe ? out.x_TD.detach() : at::Tensor();
  attach(
      {out.x_TD, segment->shared ? out.normed_TD : at::Tensor(), out.rows_RD, out.scores_R, out.aux_loss, out.z_loss},
      {in.x_TD},
      [segment](std::vector<at::Tensor> gradients) { return std::vector<at::Tensor>{segment->backward(gradients)}; });
  return out;
}

}  // namespace

Boundary attention(const SegmentContext& c, const Boundary& in, const Batch& batch) {
  return c.options.dtype == at::kDouble ? run<double>(c, in, batch) : run<float>(c, in, batch);
}

}  // namespace trireme::nn::fused
