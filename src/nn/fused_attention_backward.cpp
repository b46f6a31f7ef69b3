#include <cstring>

#include "nn/cpu/gemm.h"
#include "nn/cpu/norm.h"
#include "nn/cpu/permute.h"
#include "nn/cpu/tasks.h"
#include "nn/fused_attention_segment.h"

// Legend in fused_attention_segment.h.
namespace trireme::nn::fused {

using namespace cpu;

// Of permutation, router and norm, tile by tile, and then on through the output projection. `normed_TD`, where defined,
// gets the router's input again.
template <class T>
typename AttentionSegment<T>::Middle AttentionSegment<T>::backward_out(const Upstream& up, const at::Tensor& normed_TD,
                                                                       at::Tensor& dnorm) {
  const std::int64_t num_experts = spec.moe.num_experts, top_k = spec.moe.router.top_k;
  Middle m{.dx2_TD = moe ? make({tokens, hidden}) : up.x_TD,
           .dlogits_TE = moe ? make({tokens, num_experts}) : at::Tensor(),
           .dattended = make({tokens, inner})};
  const Tiles tiles(tokens);
  const at::Tensor scratch = moe ? make({at::get_num_threads(), tiles.size * hidden}) : at::Tensor();
  TilePartials<T> dnorms(moe ? tiles.count : 0, hidden);
  parallel_tasks(tiles.count, [&](std::int64_t tile, int thread) {
    const std::int64_t begin = tiles.begin(tile), rows = tiles.length(tile);
    T* dx = data(m.dx2_TD) + begin * hidden;
    if (moe) {
      std::memcpy(dx, data(up.x_TD) + begin * hidden, sizeof(T) * static_cast<std::size_t>(rows * hidden));
      T *dnormed = data(scratch) + thread * tiles.size * hidden, *dlogit = data(m.dlogits_TE) + begin * num_experts;
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
      gemm<T>(rows, hidden, num_experts, {dlogit, num_experts}, {value_of<T>(p.router), hidden}, T(1), dnormed, hidden);
      const T* x2 = data(x2_TD) + begin * hidden;
      norm_backward(rows, hidden, dnormed, hidden, x2, hidden, value_of<T>(p.ffn_norm), data(scale2_T) + begin, dx,
                    hidden, /*accumulate=*/true, dnorms.of(tile));
      if (normed_TD.defined())
        norm_forward(rows, hidden, spec.norm_eps, x2, hidden, value_of<T>(p.ffn_norm), data(normed_TD) + begin * hidden,
                     hidden, nullptr);
    }
    gemm<T>(rows, inner, hidden, {dx, hidden}, {value_of<T>(p.o), inner}, T(0), data(m.dattended) + begin * inner,
            inner);
  });
  if (moe) dnorm = dnorms.sum();
  return m;
}

template <class T>
at::Tensor AttentionSegment<T>::backward_attend(const at::Tensor& dattended) {
  const at::Tensor dqkv = make({tokens, width});
  T* d = data(dqkv);
  attention_backward<T>(shape(), spans, query(), key(), value(), data(attended), data(lse_TH), data(dattended),
                        {d, width}, {d + inner, width}, {d + (heads + kv_heads) * head_dim, width});
  return dqkv;
}

// Of heads, projection and norm, tile by tile: dx = dx2 + what comes back here; both may be one tensor. `normed_TD`,
// where defined, gets the projection's input again.
template <class T>
typename AttentionSegment<T>::NormGradients AttentionSegment<T>::backward_qkv(const at::Tensor& dqkv,
                                                                              const at::Tensor& dx2_TD,
                                                                              const at::Tensor& dx_TD,
                                                                              const at::Tensor& normed_TD) {
  const Tiles tiles(tokens);
  const at::Tensor scratch = make({at::get_num_threads(), tiles.size * hidden});
  TilePartials<T> dnorm(tiles.count, hidden), dquery_norm(tiles.count, head_dim), dkey_norm(tiles.count, head_dim);
  parallel_tasks(tiles.count, [&](std::int64_t tile, int thread) {
    const std::int64_t begin = tiles.begin(tile), rows = tiles.length(tile);
    T *dnormed = data(scratch) + thread * tiles.size * hidden, *d = data(dqkv) + begin * width;
    T* dx = data(dx_TD) + begin * hidden;
    const T* x = data(x_TD) + begin * hidden;
    const bool normed_heads = p.q_norm != nullptr;
    place_heads_backward(layout(), rows, positions() + begin, d, width,
                         normed_heads ? data(qkv_TW) + begin * width : nullptr, width,
                         normed_heads ? data(head_scale) + begin * (heads + kv_heads) : nullptr, dquery_norm.of(tile),
                         dkey_norm.of(tile));
    gemm<T>(rows, hidden, width, {d, width}, {value_of<T>(p.qkv), hidden}, T(0), dnormed, hidden);
    if (!dx_TD.is_same(dx2_TD))
      std::memcpy(dx, data(dx2_TD) + begin * hidden, sizeof(T) * static_cast<std::size_t>(rows * hidden));
    norm_backward(rows, hidden, dnormed, hidden, x, hidden, value_of<T>(p.attention_norm), data(scale1_T) + begin, dx,
                  hidden, /*accumulate=*/true, dnorm.of(tile));
    if (normed_TD.defined())
      norm_forward(rows, hidden, spec.norm_eps, x, hidden, value_of<T>(p.attention_norm),
                   data(normed_TD) + begin * hidden, hidden, nullptr);
  });
  NormGradients g{.norm = dnorm.sum()};
  if (p.q_norm != nullptr) g.query = dquery_norm.sum(), g.key = dkey_norm.sum();
  return g;
}

namespace {

// Gradients of the output projection and, with `normed_TD`, of the router: of what went in and what came out.
template <class T>
void add_out_gradients(LayerParameters& p, const at::Tensor& dlogits_TE, const at::Tensor& normed_TD,
                       const at::Tensor& dx2_TD, const at::Tensor& attended) {
  const std::int64_t tokens = dx2_TD.size(0), hidden = dx2_TD.size(1);
  const T* dx2 = dx2_TD.const_data_ptr<T>();
  if (normed_TD.defined())
    accumulate_tn(tokens, dlogits_TE.size(1), hidden, dlogits_TE.const_data_ptr<T>(), normed_TD.const_data_ptr<T>(),
                  gradient_of<T>(p.router));
  accumulate_tn(tokens, hidden, attended.size(1), dx2, attended.const_data_ptr<T>(), gradient_of<T>(p.o));
  if (p.o_bias != nullptr) accumulate_columns(tokens, hidden, dx2, gradient_of<T>(p.o_bias));
}

template <class T>
void add_qkv_gradients(LayerParameters& p, const at::Tensor& dqkv, const at::Tensor& normed_TD) {
  const std::int64_t tokens = dqkv.size(0), width = dqkv.size(1);
  const T* d = dqkv.const_data_ptr<T>();
  accumulate_tn(tokens, width, normed_TD.size(1), d, normed_TD.const_data_ptr<T>(), gradient_of<T>(p.qkv));
  if (p.qkv_bias != nullptr) accumulate_columns(tokens, width, d, gradient_of<T>(p.qkv_bias));
}

// Where the layer has such a norm.
template <class T>
void add_norm_gradient(Parameter* norm, const at::Tensor& sum) {
  if (norm != nullptr && sum.defined()) add_sum<T>(sum, gradient_of<T>(norm));
}

template <class T>
at::Tensor normed_again(const at::Tensor& x_TD, const Parameter& norm, double eps) {
  const std::int64_t hidden = x_TD.size(1);
  const at::Tensor normed = fresh(x_TD.sizes(), x_TD.options());
  const Tiles tiles(x_TD.size(0));
  parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
    const std::int64_t begin = tiles.begin(tile) * hidden;
    norm_forward(tiles.length(tile), hidden, eps, x_TD.const_data_ptr<T>() + begin, hidden, value_of<T>(&norm),
                 normed.mutable_data_ptr<T>() + begin, hidden, static_cast<T*>(nullptr));
  });
  return normed;
}

}  // namespace

template <class T>
at::Tensor AttentionSegment<T>::backward(const Boundary& gradient, const LossSeeds& seeds, WeightWork* work) {
  const bool joint = work == nullptr;
  at::Tensor dx2_TD, dqkv;
  {
    Upstream up{.x_TD = or_zeros(gradient.x_TD, {tokens, hidden}, options)};
    if (moe) {
      const std::int64_t rows = tokens * spec.moe.router.top_k;
      if (shared && gradient.normed_TD.defined()) up.normed_TD = gradient.normed_TD.contiguous();
      up.rows_RD = or_zeros(gradient.rows_RD, {rows, hidden}, options);
      up.scores_R = or_zeros(gradient.scores_R, {rows}, options);
      if (spec.moe.router.aux_loss_coefficient != 0) up.seeds.aux = seeds.aux_loss;
      if (spec.moe.router.z_loss_coefficient != 0) up.seeds.z = seeds.z_loss;
    }
    at::Tensor normed_TD, dnorm;
    if (joint && moe) normed_TD = make({tokens, hidden});
    Middle m = backward_out(up, normed_TD, dnorm);
    up = {};
    if (joint) {
      add_norm_gradient<T>(p.ffn_norm, dnorm);
      add_out_gradients<T>(p, m.dlogits_TE, normed_TD, m.dx2_TD, attended);
    } else {
      work->tensors.keep("ffn_norm_gradient", dnorm);
      work->tensors.keep("router_logits_gradient", m.dlogits_TE);
      work->tensors.keep("x_behind", x2_TD);
      work->tensors.keep("x_behind_gradient", m.dx2_TD);
      work->tensors.keep("attended", attended);
    }
    dx2_TD = m.dx2_TD;
    m.dlogits_TE = normed_TD = x2_TD = scale2_T = logits_TE = slopes_PE = experts_TK = at::Tensor();
    routing.reset();
    dqkv = backward_attend(m.dattended);
  }
  attended = lse_TH = placed = at::Tensor();
  if (p.q_norm == nullptr) qkv_TW = at::Tensor();  // what is left to undo is linear
  // A dense layer's dx2 is its output's gradient, which is not ours to write.
  const at::Tensor dx_TD = joint && moe ? dx2_TD : make({tokens, hidden});
  const at::Tensor normed_TD = joint ? make({tokens, hidden}) : at::Tensor();
  const NormGradients norms = backward_qkv(dqkv, dx2_TD, dx_TD, normed_TD);
  if (joint) {
    add_norm_gradient<T>(p.attention_norm, norms.norm);
    add_norm_gradient<T>(p.q_norm, norms.query);
    add_norm_gradient<T>(p.k_norm, norms.key);
    add_qkv_gradients<T>(p, dqkv, normed_TD);
  } else {
    work->tensors.keep("x", x_TD);
    work->tensors.keep("qkv_gradient", dqkv);
    work->tensors.keep("attention_norm_gradient", norms.norm);
    work->tensors.keep("query_norm_gradient", norms.query);
    work->tensors.keep("key_norm_gradient", norms.key);
  }
  return dx_TD;
}

template <class T>
Boundary attention_backward(const SegmentContext& c, Saved&& saved, const Boundary& gradient, const LossSeeds& seeds,
                            WeightWork* work) {
  Boundary out;
  out.x_TD = AttentionSegment<T>(c, std::move(saved)).backward(gradient, seeds, work);
  return out;
}

template <class T>
void attention_backward_weight(const SegmentContext& c, WeightWork&& work) {
  LayerParameters& p = *c.parameters;
  NamedTensors& kept = work.tensors;
  add_norm_gradient<T>(p.ffn_norm, kept["ffn_norm_gradient"]);
  {
    const at::Tensor x2 = kept.take("x_behind");
    add_out_gradients<T>(p, kept["router_logits_gradient"],
                         x2.defined() ? normed_again<T>(x2, *p.ffn_norm, c.spec.norm_eps) : at::Tensor(),
                         kept["x_behind_gradient"], kept["attended"]);
  }
  add_norm_gradient<T>(p.attention_norm, kept["attention_norm_gradient"]);
  add_norm_gradient<T>(p.q_norm, kept["query_norm_gradient"]);
  add_norm_gradient<T>(p.k_norm, kept["key_norm_gradient"]);
  add_qkv_gradients<T>(p, kept["qkv_gradient"], normed_again<T>(kept["x"], *p.attention_norm, c.spec.norm_eps));
}

#define INSTANTIATE(T)                                                                                       \
  template Boundary attention_backward<T>(const SegmentContext&, Saved&&, const Boundary&, const LossSeeds&, \
                                          WeightWork*);                                                      \
  template void attention_backward_weight<T>(const SegmentContext&, WeightWork&&);
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace trireme::nn::fused
