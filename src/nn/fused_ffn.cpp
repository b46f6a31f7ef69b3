#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstring>

#include "nn/cpu/gated.h"
#include "nn/cpu/norm.h"
#include "nn/cpu/permute.h"
#include "nn/cpu/tasks.h"
#include "nn/fused.h"
#include "nn/fused_access.h"
#include "nn/segment_node.h"

// Legend: T tokens, D hidden, F ffn, R rows, K top-k.
namespace trireme::nn::fused {
namespace {

using namespace cpu;

// A gated feed-forward with what its backward keeps: its input rows, its scores and the pre-activations.
template <class T>
struct Gated {
  Parameter* gate_up = nullptr;
  Parameter* down = nullptr;
  std::vector<Block> blocks;
  at::Tensor x_RD, scores_R, pre_R2F;

  GatedWeights<T> weights() const {
    const bool stacked = down->value.dim() == 3;
    return {.num_experts = stacked ? down->value.size(0) : 1,
            .hidden = down->value.size(-2),
            .ffn = down->value.size(-1),
            .gate_up = value_of<T>(gate_up),
            .down = value_of<T>(down)};
  }
  const T* scores() const { return scores_R.defined() ? scores_R.const_data_ptr<T>() : nullptr; }

  at::Tensor forward(const T* residual_RD, bool keep) {
    const GatedWeights<T> w = weights();
    const at::Tensor out = fresh(x_RD.sizes(), x_RD.options());
    if (keep) pre_R2F = fresh({x_RD.size(0), 2 * w.ffn}, x_RD.options());
    gated_forward<T>(w, blocks, x_RD.const_data_ptr<T>(), scores(), residual_RD,
                     keep ? pre_R2F.mutable_data_ptr<T>() : nullptr, out.mutable_data_ptr<T>());
    return out;
  }

  struct Gradients {
    at::Tensor x_RD, scores_R;
  };
  Gradients backward(const at::Tensor& dout_RD) {
    Gradients g{.x_RD = fresh(x_RD.sizes(), x_RD.options())};
    if (scores_R.defined()) g.scores_R = fresh(scores_R.sizes(), scores_R.options());
    gated_backward<T>(weights(), blocks, x_RD.size(0), x_RD.const_data_ptr<T>(), scores(),
                      pre_R2F.mutable_data_ptr<T>(), dout_RD.const_data_ptr<T>(),
                      {.gate_up = gradient_of<T>(gate_up),
                       .down = gradient_of<T>(down),
                       .x_RD = g.x_RD.template mutable_data_ptr<T>(),
                       .scores_R = scores_R.defined() ? g.scores_R.template mutable_data_ptr<T>() : nullptr});
    pre_R2F = at::Tensor();
    return g;
  }
};

template <class T>
Boundary run_shared(const SegmentContext& c, const Boundary& in) {
  LayerParameters& p = *c.parameters;
  auto gated = std::make_shared<Gated<T>>(Gated<T>{.gate_up = p.dense_gate_up, .down = p.dense_down});
  Boundary out = in;
  {
    const bool keep = at::GradMode::is_enabled();
    at::NoGradGuard no_grad;
    gated->x_RD = in.normed_TD.detach().contiguous();
    gated->blocks = {{0, 0, gated->x_RD.size(0)}};
    out.shared_TD = gated->forward(nullptr, keep);
  }
  attach({out.shared_TD}, {in.normed_TD}, [gated](std::vector<at::Tensor> gradients) {
    return std::vector<at::Tensor>{gated->backward(gradients[0].contiguous()).x_RD};
  });
  return out;
}

template <class T>
Boundary run_experts(const SegmentContext& c, const Boundary& in) {
  LayerParameters& p = *c.parameters;
  const bool hosts = p.gate_up != nullptr;
  auto routed = std::make_shared<Gated<T>>(Gated<T>{.gate_up = p.gate_up, .down = p.down});
  Boundary out = in;
  {
    const bool keep = at::GradMode::is_enabled();
    at::NoGradGuard no_grad;
    routed->x_RD = in.rows_RD.detach().contiguous();
    routed->scores_R = in.scores_R.detach().contiguous();
    if (hosts) {
      const std::int64_t num_experts = p.gate_up->value.size(0);
      routed->blocks = blocks_of(in.received_counts_PE, num_experts);
      const std::int64_t counted =
          routed->blocks.empty() ? 0 : routed->blocks.back().begin + routed->blocks.back().rows;
      TRIREME_CHECK(
          in.received_counts_PE.size() % static_cast<std::size_t>(num_experts) == 0 && counted == routed->x_RD.size(0),
          "{} received counts, {} rows counted, {} received, {} experts", in.received_counts_PE.size(), counted,
          routed->x_RD.size(0), num_experts);
      out.rows_RD = routed->forward(nullptr, keep);
    } else {
      TRIREME_CHECK(routed->x_RD.size(0) == 0, "{} rows for a part without experts", routed->x_RD.size(0));
      out.rows_RD = fresh(routed->x_RD.sizes(), routed->x_RD.options());
    }
  }
  attach({out.rows_RD}, {in.rows_RD, in.scores_R}, [routed, hosts](std::vector<at::Tensor> gradients) {
    if (!hosts) return std::vector<at::Tensor>{at::zeros_like(routed->x_RD), at::zeros_like(routed->scores_R)};
    const auto g = routed->backward(gradients[0].contiguous());
    return std::vector<at::Tensor>{g.x_RD, g.scores_R};
  });
  return out;
}

template <class T>
Boundary run_combine(const SegmentContext& c, const Boundary& in) {
  const std::int64_t hidden = in.x_TD.size(1), tokens = in.x_TD.size(0), top_k = c.spec.moe.router.top_k;
  const std::shared_ptr<const Routing> routing = in.routing;
  Boundary out;
  {
    at::NoGradGuard no_grad;
    const at::Tensor x = in.x_TD.contiguous(), rows = in.rows_RD.contiguous();
    const at::Tensor shared = in.shared_TD.defined() ? in.shared_TD.contiguous() : at::Tensor();
    TRIREME_CHECK(rows.size(0) == tokens * top_k, "{} rows came back for {} tokens", rows.size(0), tokens);
    out.x_TD = fresh(x.sizes(), x.options());
    at::parallel_for(0, tokens, 32, [&](std::int64_t begin, std::int64_t end) {
      sum_slots(begin, end, hidden, top_k, routing->inverse_R.const_data_ptr<std::int64_t>(), rows.const_data_ptr<T>(),
                x.const_data_ptr<T>(), shared.defined() ? shared.const_data_ptr<T>() : nullptr,
                out.x_TD.mutable_data_ptr<T>());
    });
  }
  attach({out.x_TD}, {in.x_TD, in.rows_RD, in.shared_TD}, [routing, hidden, top_k](std::vector<at::Tensor> gradients) {
    // The residual's and the shared expert's gradients are the output's own.
    const at::Tensor dx = gradients[0].contiguous();
    const std::int64_t rows = routing->order_R.size(0);
    const at::Tensor drows = fresh({rows, hidden}, dx.options());
    gather_rows<T>(rows, hidden, top_k, routing->order_R.const_data_ptr<std::int64_t>(), dx.const_data_ptr<T>(),
                   drows.mutable_data_ptr<T>());
    return std::vector<at::Tensor>{dx, drows, dx};
  });
  return out;
}

template <class T>
Boundary run_mlp(const SegmentContext& c, const Boundary& in) {
  LayerParameters& p = *c.parameters;
  const double eps = c.spec.norm_eps;
  const bool keep = at::GradMode::is_enabled();
  at::NoGradGuard no_grad;
  const at::Tensor x = in.x_TD.detach().contiguous();
  const std::int64_t tokens = x.size(0), hidden = x.size(1);
  const at::Tensor scale = fresh({tokens}, x.options());
  const auto normalise = [tokens, hidden, eps, &p](const at::Tensor& from, T* scales) {
    const at::Tensor normed = fresh({tokens, hidden}, from.options());
    at::parallel_for(0, tokens, 32, [&](std::int64_t begin, std::int64_t end) {
      norm_forward(end - begin, hidden, eps, from.const_data_ptr<T>() + begin * hidden, hidden, value_of<T>(p.ffn_norm),
                   normed.mutable_data_ptr<T>() + begin * hidden, hidden, scales == nullptr ? nullptr : scales + begin);
    });
    return normed;
  };
  auto gated = std::make_shared<Gated<T>>(Gated<T>{.gate_up = p.dense_gate_up, .down = p.dense_down});
  gated->blocks = {{0, 0, tokens}};
  gated->x_RD = normalise(x, scale.mutable_data_ptr<T>());
  Boundary out = in;
  out.x_TD = gated->forward(x.const_data_ptr<T>(), keep);
  gated->x_RD = at::Tensor();  // recomputed in the backward: a norm costs less than keeping it
  at::AutoGradMode grad_mode(keep);
  attach({out.x_TD}, {in.x_TD}, [=, &p](std::vector<at::Tensor> gradients) {
    const at::Tensor dout = gradients[0].contiguous();
    gated->x_RD = normalise(x, nullptr);
    const at::Tensor dnormed = gated->backward(dout).x_RD;
    gated->x_RD = at::Tensor();
    const at::Tensor dx = fresh({tokens, hidden}, dout.options());
    const Tiles tiles(tokens);
    TilePartials<T> dnorm(tiles.count, hidden);
    parallel_tasks(tiles.count, [&](std::int64_t tile, int) {
      const std::int64_t begin = tiles.begin(tile) * hidden, rows = tiles.length(tile);
      T* target = dx.mutable_data_ptr<T>() + begin;
      std::memcpy(target, dout.const_data_ptr<T>() + begin, sizeof(T) * static_cast<std::size_t>(rows * hidden));
      norm_backward(rows, hidden, dnormed.const_data_ptr<T>() + begin, hidden, x.const_data_ptr<T>() + begin, hidden,
                    value_of<T>(p.ffn_norm), scale.const_data_ptr<T>() + tiles.begin(tile), target, hidden,
                    /*accumulate=*/true, dnorm.of(tile));
    });
    dnorm.add_to(gradient_of<T>(p.ffn_norm));
    return std::vector<at::Tensor>{dx};
  });
  return out;
}

}  // namespace

Boundary shared(const SegmentContext& c, const Boundary& in) {
  return c.options.dtype == at::kDouble ? run_shared<double>(c, in) : run_shared<float>(c, in);
}
Boundary experts(const SegmentContext& c, const Boundary& in) {
  return c.options.dtype == at::kDouble ? run_experts<double>(c, in) : run_experts<float>(c, in);
}
Boundary combine(const SegmentContext& c, const Boundary& in) {
  return c.options.dtype == at::kDouble ? run_combine<double>(c, in) : run_combine<float>(c, in);
}
Boundary mlp(const SegmentContext& c, const Boundary& in) {
  return c.options.dtype == at::kDouble ? run_mlp<double>(c, in) : run_mlp<float>(c, in);
}

}  // namespace trireme::nn::fused
