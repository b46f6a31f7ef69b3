#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstring>

#include "nn/cpu/cross_entropy.h"
#include "nn/cpu/norm.h"
#include "nn/cpu/tasks.h"
#include "nn/fused_access.h"
#include "nn/fused_backward.h"

// Legend: T tokens, C tokens of a chunk, D hidden, V vocabulary.
namespace trireme::nn::fused {
namespace {

using namespace cpu;

template <class T>
Boundary run_embed(const SegmentContext& c, const Boundary& in, const Batch& batch, Saved* saved) {
  Parameter* table = c.ends->embed;
  const std::int64_t hidden = c.spec.hidden, vocab = c.spec.vocab_size;
  const at::Tensor tokens_T = batch.tokens_BS.contiguous();
  const std::int64_t tokens = tokens_T.numel();
  const std::int64_t* ids = tokens_T.const_data_ptr<std::int64_t>();
  for (std::int64_t t = 0; t < tokens; ++t)
    TRIREME_CHECK(ids[t] >= 0 && ids[t] < vocab, "token {} of a vocabulary of {}", ids[t], vocab);
  Boundary out = in;
  out.x_TD = fresh({tokens, hidden}, table->value.options().requires_grad(false));
  T* x = out.x_TD.mutable_data_ptr<T>();
  for (std::int64_t t = 0; t < tokens; ++t)
    std::memcpy(x + t * hidden, value_of<T>(table) + ids[t] * hidden, sizeof(T) * static_cast<std::size_t>(hidden));
  if (saved != nullptr) saved->batch.tokens_BS = tokens_T;
  return out;
}

template <class T>
Boundary run_head(const SegmentContext& c, const Boundary& in, const Batch& batch, double seed, Saved* saved) {
  Parameter *norm = c.ends->final_norm, *table = c.ends->head;
  const bool training = seed != 0.0 && saved != nullptr;
  Boundary out = in;
  const at::Tensor x_TD = in.x_TD.contiguous();
  const at::Tensor targets_T = batch.targets_BS.contiguous(), weights_T = batch.weights_BS.to(at::kFloat).contiguous();
  const std::int64_t tokens = x_TD.size(0), hidden = x_TD.size(1), vocab = c.spec.vocab_size;
  const std::int64_t chunk = std::min(c.options.head_chunk_tokens, tokens);
  at::Tensor dx_TD;
  if (training) dx_TD = fresh({tokens, hidden}, x_TD.options());
  if (saved != nullptr && !training) dx_TD = at::zeros({tokens, hidden}, x_TD.options());  // of a loss of no weight
  const at::Tensor logits = fresh({chunk, vocab}, x_TD.options()), scale = fresh({chunk}, x_TD.options());
  const at::Tensor normed = fresh({chunk, hidden}, x_TD.options());
  const at::Tensor dnormed = training ? fresh({chunk, hidden}, x_TD.options()) : at::Tensor();
  double loss = 0;
  for (std::int64_t first = 0; first < tokens; first += chunk) {
    const std::int64_t count = std::min(chunk, tokens - first);
    const T* x = x_TD.const_data_ptr<T>() + first * hidden;
    const Tiles tiles(count);
    parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
      const std::int64_t begin = tiles.begin(tile);
      norm_forward(tiles.length(tile), hidden, c.spec.norm_eps, x + begin * hidden, hidden, value_of<T>(norm),
                   normed.mutable_data_ptr<T>() + begin * hidden, hidden, scale.mutable_data_ptr<T>() + begin);
    });
    loss += head_chunk<T>({.tokens = count,
                           .hidden = hidden,
                           .vocab = vocab,
                           .x_CD = normed.const_data_ptr<T>(),
                           .weight_VD = value_of<T>(table),
                           .targets_C = targets_T.const_data_ptr<std::int64_t>() + first,
                           .weights_C = weights_T.const_data_ptr<float>() + first,
                           .logits_CV = logits.mutable_data_ptr<T>(),
                           .seed = training ? seed : 0.0,
                           .dx_CD = training ? dnormed.mutable_data_ptr<T>() : nullptr,
                           .dweight_VD = training ? gradient_of<T>(table) : nullptr});
    if (!training) continue;
    TilePartials<T> dnorm(tiles.count, hidden);
    parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
      const std::int64_t begin = tiles.begin(tile);
      norm_backward(tiles.length(tile), hidden, dnormed.const_data_ptr<T>() + begin * hidden, hidden,
                    x + begin * hidden, hidden, value_of<T>(norm), scale.const_data_ptr<T>() + begin,
                    dx_TD.mutable_data_ptr<T>() + (first + begin) * hidden, hidden, /*accumulate=*/false,
                    dnorm.of(tile));
    });
    dnorm.add_to(gradient_of<T>(norm));
  }
  out.loss = at::full({}, loss, at::TensorOptions().dtype(at::kDouble));
  if (saved != nullptr) saved->tensors.keep("x_gradient", dx_TD);
  return out;
}

}  // namespace

bool applies(const ModelOptions& options) {
  return !options.reference && options.device.is_cpu() && (options.dtype == at::kFloat || options.dtype == at::kDouble);
}

template <class T>
Boundary embed_backward_input(Saved&& saved, const Boundary& gradient, WeightWork& work) {
  work.batch.tokens_BS = std::move(saved.batch.tokens_BS);
  work.tensors.keep("out_gradient", gradient.x_TD.contiguous());
  return {};
}

template <class T>
void embed_backward_weight(const SegmentContext& c, WeightWork&& work) {
  const T* dx = work.tensors["out_gradient"].const_data_ptr<T>();
  const std::int64_t *id = work.batch.tokens_BS.const_data_ptr<std::int64_t>(), tokens = work.batch.tokens_BS.numel(),
                     hidden = c.spec.hidden;
  T* gradient = gradient_of<T>(c.ends->embed);
  // Strips of columns: each row of the table gets its tokens in order, whichever thread adds them.
  at::parallel_for(0, (hidden + 63) / 64, 1, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = first * 64, end = std::min(hidden, last * 64);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t i = begin; i < end; ++i) gradient[id[t] * hidden + i] += dx[t * hidden + i];
  });
}

Boundary head_backward(Saved&& saved) {
  Boundary out;
  out.x_TD = saved.tensors.take("x_gradient");
  return out;
}

template Boundary embed_backward_input<float>(Saved&&, const Boundary&, WeightWork&);
template Boundary embed_backward_input<double>(Saved&&, const Boundary&, WeightWork&);
template void embed_backward_weight<float>(const SegmentContext&, WeightWork&&);
template void embed_backward_weight<double>(const SegmentContext&, WeightWork&&);

Boundary embed(const SegmentContext& c, const Boundary& in, const Batch& batch, Saved* saved) {
  return c.options.dtype == at::kDouble ? run_embed<double>(c, in, batch, saved)
                                        : run_embed<float>(c, in, batch, saved);
}
Boundary head(const SegmentContext& c, const Boundary& in, const Batch& batch, double seed, Saved* saved) {
  return c.options.dtype == at::kDouble ? run_head<double>(c, in, batch, seed, saved)
                                        : run_head<float>(c, in, batch, seed, saved);
}

}  // namespace trireme::nn::fused
