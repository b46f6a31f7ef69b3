#include <c10/core/GradMode.h>
#include <cstring>

#include "nn/cpu/gemm.h"
#include "nn/cpu/norm.h"
#include "nn/cpu/permute.h"
#include "nn/cpu/tasks.h"
#include "nn/fused_attention_segment.h"

// Legend in fused_attention_segment.h.
namespace trireme::nn::fused {

using namespace cpu;

template <class T>
void AttentionSegment<T>::project_qkv() {
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

template <class T>
void AttentionSegment<T>::attend() {
  attended = make({tokens, inner});
  lse_TH = make({tokens, heads});
  attention_forward<T>(shape(), spans, query(), key(), value(), data(attended), data(lse_TH));
}

template <class T>
void AttentionSegment<T>::attend_with_cached(const NewTokens& new_tokens, KeyValueCache::Layer& cache) {
  const std::int64_t row = kv_heads * head_dim, capacity = cache.keys_NCGh.size(1);
  T *keys = data(cache.keys_NCGh), *values = data(cache.values_NCGh);
  std::vector<QueryRun<T>> runs;
  std::int64_t first = 0;
  for (const NewTokens::Run& run : new_tokens.runs) {
    T *slot_keys = keys + run.slot * capacity * row, *slot_values = values + run.slot * capacity * row;
    for (std::int64_t i = 0; i < run.count; ++i) {
      const auto size = sizeof(T) * static_cast<std::size_t>(row);
      std::memcpy(slot_keys + (run.past + i) * row, key().data + (first + i) * key().stride, size);
      std::memcpy(slot_values + (run.past + i) * row, value().data + (first + i) * value().stride, size);
    }
    runs.push_back(
        {.first = first, .rows = run.count, .past = run.past, .k = {slot_keys, row}, .v = {slot_values, row}});
    first += run.count;
  }
  attended = make({tokens, inner});
  lse_TH = make({tokens, heads});
  attention_forward<T>(shape(), runs, query(), data(attended), data(lse_TH));
}

// Output projection and residual; in an MoE layer also norm, router logits and the choice of experts.
template <class T>
void AttentionSegment<T>::project_out(const at::Tensor& normed_TD, const at::Tensor& weights_TK) {
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

template <class T>
void AttentionSegment<T>::add_losses(Boundary& out) {
  const model::RouterSpec& router = spec.moe.router;
  if (router.aux_loss_coefficient == 0 && router.z_loss_coefficient == 0) return;
  const std::int64_t num_experts = spec.moe.num_experts;
  if (router.aux_loss_coefficient != 0)
    slopes_PE = at::tensor(aux_slopes(router, num_experts, tokens, tokens / piece_length(),
                                      experts_TK.const_data_ptr<std::int64_t>(), valid()));
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

template <class T>
void AttentionSegment<T>::permute(const at::Tensor& normed_TD, const at::Tensor& weights_TK, Boundary& out) {
  const std::int64_t top_k = spec.moe.router.top_k, rows = tokens * top_k;
  const auto made = std::make_shared<Routing>();
  made->experts_TK = experts_TK;
  made->order_R = fresh({rows}, experts_TK.options());
  made->inverse_R = fresh({rows}, experts_TK.options());
  auto* order = made->order_R.mutable_data_ptr<std::int64_t>();
  sort_slots(experts_TK.const_data_ptr<std::int64_t>(), rows, spec.moe.num_experts, order,
             made->inverse_R.mutable_data_ptr<std::int64_t>(), made->counts_E);
  routing = made;
  out.rows_RD = make({rows, hidden});
  gather_rows<T>(rows, hidden, top_k, order, data(normed_TD), data(out.rows_RD));
  out.scores_R = make({rows});
  for (std::int64_t i = 0; i < rows; ++i) data(out.scores_R)[i] = data(weights_TK)[order[i]];
  out.routing = routing;
  if (shared) out.normed_TD = normed_TD;
}

template <class T>
Boundary AttentionSegment<T>::forward(const Boundary& in, const Batch& batch, Saved* saved) {
  Boundary out = in;
  project_qkv();
  attend();
  const at::Tensor normed_TD = moe ? make({tokens, hidden}) : at::Tensor();
  const at::Tensor weights_TK = moe ? make({tokens, spec.moe.router.top_k}) : at::Tensor();
  project_out(normed_TD, weights_TK);
  out.x_TD = x2_TD;
  if (moe) {
    permute(normed_TD, weights_TK, out);
    add_losses(out);
  }
  if (saved == nullptr) return out;
  saved->batch.positions_BS = batch.positions_BS;
  saved->batch.documents_BS = batch.documents_BS;
  saved->spans = std::move(spans);
  saved->routing = routing;
  each_kept([&](const char* name, at::Tensor& tensor) { saved->tensors.keep(name, std::move(tensor)); });
  return out;
}

template <class T>
Boundary AttentionSegment<T>::extend(const Boundary& in, const NewTokens& new_tokens, KeyValueCache::Layer& cache) {
  Boundary out = in;
  project_qkv();
  attend_with_cached(new_tokens, cache);
  const at::Tensor normed_TD = moe ? make({tokens, hidden}) : at::Tensor();
  const at::Tensor weights_TK = moe ? make({tokens, spec.moe.router.top_k}) : at::Tensor();
  project_out(normed_TD, weights_TK);
  out.x_TD = x2_TD;
  if (moe) permute(normed_TD, weights_TK, out);
  return out;
}

namespace {

template <class T>
Boundary run(const SegmentContext& c, const Boundary& in, const Batch& batch, Saved* saved) {
  return AttentionSegment<T>(c, in.x_TD.contiguous(), batch).forward(in, batch, saved);
}

template <class T>
Boundary run_extended(const SegmentContext& c, const Boundary& in, const NewTokens& tokens,
                      KeyValueCache::Layer& cache) {
  AttentionSegment<T> segment(c, in.x_TD.contiguous(), tokens.batch);
  return segment.extend(in, tokens, cache);
}

}  // namespace

Boundary extend_attention(const SegmentContext& c, const Boundary& in, const NewTokens& tokens,
                          KeyValueCache::Layer& cache) {
  return c.options.dtype == at::kDouble ? run_extended<double>(c, in, tokens, cache)
                                        : run_extended<float>(c, in, tokens, cache);
}

Boundary attention(const SegmentContext& c, const Boundary& in, const Batch& batch, Saved* saved) {
  return c.options.dtype == at::kDouble ? run<double>(c, in, batch, saved) : run<float>(c, in, batch, saved);
}

}  // namespace trireme::nn::fused
