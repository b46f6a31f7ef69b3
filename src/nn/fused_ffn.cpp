#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstring>

#include "nn/cpu/gated.h"
#include "nn/cpu/norm.h"
#include "nn/cpu/tasks.h"
#include "nn/fused_access.h"
#include "nn/fused_backward.h"

// Legend: T tokens, D hidden, F ffn, R rows.
namespace trireme::nn::fused {
namespace {

using namespace cpu;

// A gated feed-forward's two matmuls, over blocks of rows.
template <class T>
struct Gated {
  Parameter* gate_up = nullptr;
  Parameter* down = nullptr;
  std::vector<Block> blocks;

  GatedWeights<T> weights() const {
    const bool stacked = down->value.dim() == 3;
    return {.num_experts = stacked ? down->value.size(0) : 1,
            .hidden = down->value.size(-2),
            .ffn = down->value.size(-1),
            .gate_up = value_of<T>(gate_up),
            .down = value_of<T>(down)};
  }

  // `saved`: gets the pre-activations.
  at::Tensor forward(const at::Tensor& x_RD, const at::Tensor& scores_R, const T* residual_RD, Saved* saved) const {
    const GatedWeights<T> w = weights();
    const at::Tensor out = fresh(x_RD.sizes(), x_RD.options());
    at::Tensor pre_R2F;
    if (saved != nullptr) pre_R2F = fresh({x_RD.size(0), 2 * w.ffn}, x_RD.options());
    gated_forward<T>(w, blocks, x_RD.const_data_ptr<T>(), pointer(scores_R), residual_RD, pointer(pre_R2F),
                     out.mutable_data_ptr<T>());
    if (saved != nullptr) saved->tensors.keep("gate_up", pre_R2F);
    return out;
  }

  struct Gradients {
    at::Tensor x_RD, scores_R;
  };
  // Fills `work` but for the input's rows.
  Gradients backward_input(Saved& saved, const at::Tensor& scores_R, const at::Tensor& dout_RD,
                           WeightWork& work) const {
    const at::Tensor gate_up_R2F = saved.tensors.take("gate_up");
    const at::Tensor active_RF = fresh({dout_RD.size(0), weights().ffn}, dout_RD.options());
    Gradients g{.x_RD = fresh(dout_RD.sizes(), dout_RD.options())};
    if (scores_R.defined()) g.scores_R = fresh(scores_R.sizes(), scores_R.options());
    gated_backward_input<T>(
        weights(), blocks, pointer(scores_R), pointer(gate_up_R2F), dout_RD.const_data_ptr<T>(),
        {.active_RF = pointer(active_RF), .x_RD = pointer(g.x_RD), .scores_R = pointer(g.scores_R)});
    work.tensors.keep("gate_up_gradient", gate_up_R2F);
    work.tensors.keep("active", active_RF);
    work.tensors.keep("out_gradient", dout_RD);
    return g;
  }

  void backward_weight(const at::Tensor& x_RD, const WeightWork& work) const {
    gated_backward_weight<T>(weights(), blocks, x_RD.const_data_ptr<T>(), pointer(work.tensors["gate_up_gradient"]),
                             pointer(work.tensors["active"]), pointer(work.tensors["out_gradient"]),
                             gradient_of<T>(gate_up), gradient_of<T>(down));
  }

 private:
  static T* pointer(const at::Tensor& t) { return t.defined() ? t.mutable_data_ptr<T>() : nullptr; }
};

template <class T>
Gated<T> dense(const SegmentContext& c, std::int64_t rows) {
  return {.gate_up = c.parameters->dense_gate_up, .down = c.parameters->dense_down, .blocks = {{0, 0, rows}}};
}

template <class T>
Boundary run_shared(const SegmentContext& c, const Boundary& in, Saved* saved) {
  const at::Tensor x_RD = in.normed_TD.contiguous();
  Boundary out = in;
  out.shared_TD = dense<T>(c, x_RD.size(0)).forward(x_RD, at::Tensor(), nullptr, saved);
  if (saved != nullptr) saved->tensors.keep("x", x_RD);
  return out;
}

template <class T>
Gated<T> routed(const SegmentContext& c, const std::vector<std::int64_t>& received_counts_PE) {
  const LayerParameters& p = *c.parameters;
  return {.gate_up = p.gate_up, .down = p.down, .blocks = blocks_of(received_counts_PE, p.gate_up->value.size(0))};
}

template <class T>
Boundary run_experts(const SegmentContext& c, const Boundary& in, Saved* saved) {
  const LayerParameters& p = *c.parameters;
  const at::Tensor x_RD = in.rows_RD.contiguous(), scores_R = in.scores_R.contiguous();
  Boundary out = in;
  if (p.gate_up != nullptr) {
    const auto num_experts = static_cast<std::size_t>(p.gate_up->value.size(0));
    const Gated<T> gated = routed<T>(c, in.received_counts_PE);
    const std::int64_t counted = gated.blocks.empty() ? 0 : gated.blocks.back().begin + gated.blocks.back().rows;
    TRIREME_CHECK(in.received_counts_PE.size() % num_experts == 0 && counted == x_RD.size(0),
                  "{} received counts, {} rows counted, {} received, {} experts", in.received_counts_PE.size(), counted,
                  x_RD.size(0), num_experts);
    out.rows_RD = gated.forward(x_RD, scores_R, nullptr, saved);
  } else {
    TRIREME_CHECK(x_RD.size(0) == 0, "{} rows for a part without experts", x_RD.size(0));
    out.rows_RD = fresh(x_RD.sizes(), x_RD.options());
  }
  if (saved != nullptr) {
    saved->tensors.keep("x", x_RD);
    saved->tensors.keep("scores", scores_R);
    saved->received_counts_PE = in.received_counts_PE;
  }
  return out;
}

// x (T, D) after the norm; `scale_T`, where given, gets the norm's.
template <class T>
at::Tensor mlp_norm(const SegmentContext& c, const at::Tensor& x, T* scale_T) {
  const std::int64_t tokens = x.size(0), hidden = x.size(1);
  const at::Tensor normed = fresh({tokens, hidden}, x.options());
  at::parallel_for(0, tokens, 32, [&](std::int64_t begin, std::int64_t end) {
    norm_forward(end - begin, hidden, c.spec.norm_eps, x.const_data_ptr<T>() + begin * hidden, hidden,
                 value_of<T>(c.parameters->ffn_norm), normed.mutable_data_ptr<T>() + begin * hidden, hidden,
                 scale_T == nullptr ? nullptr : scale_T + begin);
  });
  return normed;
}

template <class T>
Boundary run_mlp(const SegmentContext& c, const Boundary& in, Saved* saved) {
  const at::Tensor x = in.x_TD.contiguous(), scale = fresh({x.size(0)}, x.options());
  const at::Tensor normed = mlp_norm<T>(c, x, scale.mutable_data_ptr<T>());
  Boundary out = in;
  out.x_TD = dense<T>(c, x.size(0)).forward(normed, at::Tensor(), x.const_data_ptr<T>(), saved);
  if (saved != nullptr) {
    saved->tensors.keep("x", x);
    saved->tensors.keep("norm_scale", scale);
  }
  return out;
}

}  // namespace

template <class T>
Boundary shared_backward_input(const SegmentContext& c, Saved&& saved, const Boundary& gradient, WeightWork& work) {
  const at::Tensor dout = gradient.shared_TD.contiguous();
  Boundary out;
  out.normed_TD = dense<T>(c, dout.size(0)).backward_input(saved, at::Tensor(), dout, work).x_RD;
  work.tensors.keep("x", saved.tensors.take("x"));
  return out;
}

template <class T>
void shared_backward_weight(const SegmentContext& c, WeightWork&& work) {
  const at::Tensor& x = work.tensors["x"];
  dense<T>(c, x.size(0)).backward_weight(x, work);
}

template <class T>
Boundary experts_backward_input(const SegmentContext& c, Saved&& saved, const Boundary& gradient, WeightWork& work) {
  Boundary out;
  const at::Tensor x = saved.tensors.take("x"), scores = saved.tensors.take("scores");
  if (c.parameters->gate_up == nullptr) {  // hosts none, and got no rows
    out.rows_RD = at::zeros_like(x);
    out.scores_R = at::zeros_like(scores);
    return out;
  }
  const auto g =
      routed<T>(c, saved.received_counts_PE).backward_input(saved, scores, gradient.rows_RD.contiguous(), work);
  work.tensors.keep("x", x);
  work.received_counts_PE = std::move(saved.received_counts_PE);
  out.rows_RD = g.x_RD;
  out.scores_R = g.scores_R;
  return out;
}

template <class T>
void experts_backward_weight(const SegmentContext& c, WeightWork&& work) {
  routed<T>(c, work.received_counts_PE).backward_weight(work.tensors["x"], work);
}

template <class T>
Boundary mlp_backward_input(const SegmentContext& c, Saved&& saved, const Boundary& gradient, WeightWork& work) {
  const at::Tensor dout = gradient.x_TD.contiguous();
  const at::Tensor x = saved.tensors.take("x"), scale = saved.tensors.take("norm_scale");
  const std::int64_t tokens = x.size(0), hidden = x.size(1);
  const at::Tensor dnormed = dense<T>(c, tokens).backward_input(saved, at::Tensor(), dout, work).x_RD;
  const at::Tensor dx = fresh({tokens, hidden}, dout.options());
  const Tiles tiles(tokens);
  TilePartials<T> dnorm(tiles.count, hidden);
  parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
    const std::int64_t begin = tiles.begin(tile) * hidden, rows = tiles.length(tile);
    T* target = dx.mutable_data_ptr<T>() + begin;
    std::memcpy(target, dout.const_data_ptr<T>() + begin, sizeof(T) * static_cast<std::size_t>(rows * hidden));
    norm_backward(rows, hidden, dnormed.const_data_ptr<T>() + begin, hidden, x.const_data_ptr<T>() + begin, hidden,
                  value_of<T>(c.parameters->ffn_norm), scale.const_data_ptr<T>() + tiles.begin(tile), target, hidden,
                  /*accumulate=*/true, dnorm.of(tile));
  });
  work.tensors.keep("x", x);
  work.tensors.keep("norm_gradient", dnorm.sum());
  Boundary out;
  out.x_TD = dx;
  return out;
}

template <class T>
void mlp_backward_weight(const SegmentContext& c, WeightWork&& work) {
  add_sum<T>(work.tensors["norm_gradient"], gradient_of<T>(c.parameters->ffn_norm));
  const at::Tensor x = work.tensors.take("x");
  // Made again: a norm costs less than keeping its result.
  dense<T>(c, x.size(0)).backward_weight(mlp_norm<T>(c, x, nullptr), work);
}

#define INSTANTIATE(T)                                                                                       \
  template Boundary shared_backward_input<T>(const SegmentContext&, Saved&&, const Boundary&, WeightWork&);  \
  template Boundary experts_backward_input<T>(const SegmentContext&, Saved&&, const Boundary&, WeightWork&); \
  template Boundary mlp_backward_input<T>(const SegmentContext&, Saved&&, const Boundary&, WeightWork&);     \
  template void shared_backward_weight<T>(const SegmentContext&, WeightWork&&);                              \
  template void experts_backward_weight<T>(const SegmentContext&, WeightWork&&);                             \
  template void mlp_backward_weight<T>(const SegmentContext&, WeightWork&&);
INSTANTIATE(float)
INSTANTIATE(double)

Boundary shared(const SegmentContext& c, const Boundary& in, Saved* saved) {
  return c.options.dtype == at::kDouble ? run_shared<double>(c, in, saved) : run_shared<float>(c, in, saved);
}
Boundary experts(const SegmentContext& c, const Boundary& in, Saved* saved) {
  return c.options.dtype == at::kDouble ? run_experts<double>(c, in, saved) : run_experts<float>(c, in, saved);
}
Boundary mlp(const SegmentContext& c, const Boundary& in, Saved* saved) {
  return c.options.dtype == at::kDouble ? run_mlp<double>(c, in, saved) : run_mlp<float>(c, in, saved);
}

}  // namespace trireme::nn::fused
