#include <cstring>

#include "nn/cpu/gemm.h"
#include "nn/cpu/norm.h"
#include "nn/cpu/permute.h"
#include "nn/cpu/tasks.h"
#include "nn/fused_attention_segment.h"

// Legend in fused_attention_segment.h.
namespace trireme::nn::fused {

using namespace cpu;

// Of router, norm and permutation: adds to dx_TD, tile by tile, and then multiplies on to the attention's output.
template <class T>
at::Tensor AttentionSegment<T>::backward_out(const Upstream& up, const at::Tensor& dx_TD) {
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
      gemm<T>(rows, hidden, num_experts, {dlogit, num_experts}, {value_of<T>(p.router), hidden}, T(1), dnormed, hidden);
      const T* x2 = data(x2_TD) + begin * hidden;
      norm_backward(rows, hidden, dnormed, hidden, x2, hidden, value_of<T>(p.ffn_norm), data(scale2_T) + begin, dx,
                    hidden, /*accumulate=*/true, dnorm.of(tile));
      norm_forward(rows, hidden, spec.norm_eps, x2, hidden, value_of<T>(p.ffn_norm), data(normed) + begin * hidden,
                   hidden, nullptr);
    }
    gemm<T>(rows, inner, hidden, {dx, hidden}, {value_of<T>(p.o), inner}, T(0), data(dattended) + begin * inner, inner);
  });
  if (moe) {
    dnorm.add_to(gradient_of<T>(p.ffn_norm));
    accumulate_tn(tokens, num_experts, hidden, data(dlogits), data(normed), gradient_of<T>(p.router));
  }
  accumulate_tn(tokens, hidden, inner, data(dx_TD), data(attended), gradient_of<T>(p.o));
  if (p.o_bias != nullptr) accumulate_columns(tokens, hidden, data(dx_TD), gradient_of<T>(p.o_bias));
  return dattended;
}

template <class T>
at::Tensor AttentionSegment<T>::backward_attend(const at::Tensor& dattended) {
  const at::Tensor dqkv = make({tokens, width});
  T* d = data(dqkv);
  attention_backward<T>(shape(), spans, query(), key(), value(), data(attended), data(lse_TH), data(dattended),
                        {d, width}, {d + inner, width}, {d + (heads + kv_heads) * head_dim, width});
  return dqkv;
}

template <class T>
void AttentionSegment<T>::backward_qkv(const at::Tensor& dqkv, const at::Tensor& dx_TD) {
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

template <class T>
at::Tensor AttentionSegment<T>::backward(const std::vector<at::Tensor>& gradients) {
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

template at::Tensor AttentionSegment<float>::backward(const std::vector<at::Tensor>&);
template at::Tensor AttentionSegment<double>::backward(const std::vector<at::Tensor>&);

}  // namespace trireme::nn::fused
