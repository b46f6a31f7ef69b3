#include "nn/composite.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/errors.h"
#include "nn/documents.h"
#include "nn/fresh.h"
#include "nn/router.h"
#include "nn/segment_node.h"

// Legend: T tokens, B sequences, S tokens of a sequence, D hidden, H query heads, G key/value heads, h head_dim,
// F ffn, R rows, K top-k, V vocabulary.
namespace trireme::nn {

at::Tensor tapped(Parameter& parameter, const at::Tensor& anchor) {
  at::Tensor value = parameter.value.detach();
  Parameter* p = &parameter;
  attach({value}, {anchor}, [p](std::vector<at::Tensor> gradients) {
    if (gradients[0].defined()) add_gradient(*p, gradients[0]);
    return std::vector<at::Tensor>(1);
  });
  return value;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::ScalarType wide = accumulate_type(x.scalar_type());
  const at::Tensor x_wide = x.to(wide);
  const at::Tensor scale = at::rsqrt(x_wide.square().mean({-1}, /*keepdim=*/true) + eps);
  return (x_wide * scale * weight.to(wide)).to(x.scalar_type());
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& positions_BS, double theta) {
  const at::ScalarType wide = accumulate_type(x.scalar_type());
  const std::int64_t half = x.size(-1) / 2;
  const auto doubles = at::TensorOptions().device(x.device()).dtype(at::kDouble);
  const at::Tensor frequency = at::pow(theta, at::arange(half, doubles) * (-1.0 / static_cast<double>(half)));
  const at::Tensor angle = positions_BS.to(x.device()).to(at::kDouble).unsqueeze(-1) * frequency;  // (B, S, h/2)
  const at::Tensor cosine = angle.cos().to(wide).unsqueeze(2), sine = angle.sin().to(wide).unsqueeze(2);
  const at::Tensor first = x.narrow(-1, 0, half).to(wide), second = x.narrow(-1, half, half).to(wide);
  return at::cat({first * cosine - second * sine, second * cosine + first * sine}, -1).to(x.scalar_type());
}

namespace composite {
namespace {

at::Tensor swiglu(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down, const at::Tensor& score_R) {
  const at::Tensor gate_up_RF = at::matmul(x, gate_up.t());
  const std::int64_t ffn = gate_up_RF.size(-1) / 2;
  at::Tensor active_RF = at::silu(gate_up_RF.narrow(-1, 0, ffn)) * gate_up_RF.narrow(-1, ffn, ffn);
  if (score_R.defined()) active_RF = (active_RF * score_R.unsqueeze(-1)).to(x.scalar_type());
  return at::matmul(active_RF, down.t());
}

at::Tensor attention_output(const SegmentContext& c, const at::Tensor& x_TD, const Batch& batch,
                            const Attend& attend) {
  const model::AttentionSpec& a = c.spec.attention;
  LayerParameters& p = *c.parameters;
  const std::int64_t sequences = batch.tokens_BS.size(0), length = batch.tokens_BS.size(1);
  const at::Tensor normed = rms_norm(x_TD, tapped(*p.attention_norm, x_TD), c.spec.norm_eps);
  at::Tensor qkv = at::matmul(normed, tapped(*p.qkv, x_TD).t());
  if (p.qkv_bias != nullptr) qkv = qkv + tapped(*p.qkv_bias, x_TD);
  qkv = qkv.view({sequences, length, a.num_heads + 2 * a.num_kv_heads, a.head_dim});
  at::Tensor q = qkv.narrow(2, 0, a.num_heads), k = qkv.narrow(2, a.num_heads, a.num_kv_heads);
  const at::Tensor v = qkv.narrow(2, a.num_heads + a.num_kv_heads, a.num_kv_heads);
  if (a.qk_norm) {
    q = rms_norm(q, tapped(*p.q_norm, x_TD), c.spec.norm_eps);
    k = rms_norm(k, tapped(*p.k_norm, x_TD), c.spec.norm_eps);
  }
  q = rotate(q, batch.positions_BS, a.rope_theta);
  k = rotate(k, batch.positions_BS, a.rope_theta);
  const at::Tensor out = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2));
  at::Tensor projected = at::matmul(out.transpose(1, 2).reshape({x_TD.size(0), -1}), tapped(*p.o, x_TD).t());
  if (p.o_bias != nullptr) projected = projected + tapped(*p.o_bias, x_TD);
  return projected;
}

// Row numbers in expert-major order, for rows that lie source-major.
at::Tensor expert_major(const std::vector<std::int64_t>& counts_PE, std::int64_t num_experts) {
  const std::int64_t sources = static_cast<std::int64_t>(counts_PE.size()) / num_experts;
  std::vector<std::int64_t> begin(counts_PE.size() + 1, 0);
  std::partial_sum(counts_PE.begin(), counts_PE.end(), begin.begin() + 1);
  std::vector<at::Tensor> parts;
  for (std::int64_t e = 0; e < num_experts; ++e)
    for (std::int64_t p = 0; p < sources; ++p) {
      const auto i = static_cast<std::size_t>(p * num_experts + e);
      parts.push_back(at::arange(begin[i], begin[i + 1], at::kLong));
    }
  return at::cat(parts);
}

at::Tensor routed_experts(const SegmentContext& c, const Boundary& in) {
  LayerParameters& p = *c.parameters;
  const at::Tensor& rows = in.rows_RD;
  if (p.gate_up == nullptr) return rows.alias();  // hosts no expert, so there are no rows either
  const std::int64_t num_experts = p.gate_up->value.size(0);
  const auto& counts_PE = in.received_counts_PE;
  TRIREME_CHECK(!counts_PE.empty() && counts_PE.size() % static_cast<std::size_t>(num_experts) == 0,
                "{} received counts for {} experts", counts_PE.size(), num_experts);
  const std::int64_t sources = static_cast<std::int64_t>(counts_PE.size()) / num_experts;
  std::vector<std::int64_t> counts_E(static_cast<std::size_t>(num_experts), 0);
  for (std::size_t i = 0; i < counts_PE.size(); ++i)
    counts_E[i % static_cast<std::size_t>(num_experts)] += counts_PE[i];

  at::Tensor sorted = rows, scores = in.scores_R, order;
  if (sources > 1) {
    order = expert_major(counts_PE, num_experts).to(rows.device());
    sorted = rows.index_select(0, order);
    scores = scores.index_select(0, order);
  }
  const at::Tensor gate_up = tapped(*p.gate_up, rows), down = tapped(*p.down, rows);
  std::vector<at::Tensor> results;
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < num_experts; ++e) {
    // Also for an expert without rows: its matmuls of zero rows keep the graph's edges.
    const std::int64_t n = counts_E[static_cast<std::size_t>(e)];
    results.push_back(swiglu(sorted.narrow(0, begin, n), gate_up[e], down[e], scores.narrow(0, begin, n)));
    begin += n;
  }
  TRIREME_CHECK(begin == rows.size(0), "{} rows received, {} counted", rows.size(0), begin);
  at::Tensor out = at::cat(results);
  if (order.defined()) out = at::zeros_like(out).index_copy(0, order, out);
  return out;
}

}  // namespace

Boundary embed(const SegmentContext& c, const Boundary& in, const Batch& batch) {
  Boundary out = in;
  const at::Tensor tokens = batch.tokens_BS.reshape({-1}).to(c.options.device);
  out.x_TD = at::embedding(tapped(*c.ends->embed, at::Tensor()), tokens);
  return out;
}

at::Tensor attend(const SegmentContext& c, const at::Tensor& q_BHQh, const at::Tensor& k_BGKh,
                  const at::Tensor& v_BGKh, const std::optional<at::Tensor>& mask) {
  const model::AttentionSpec& a = c.spec.attention;
  if (!c.options.reference)
    return at::scaled_dot_product_attention(q_BHQh, k_BGKh, v_BGKh, mask, 0.0, /*is_causal=*/!mask, std::nullopt,
                                            /*enable_gqa=*/a.num_heads != a.num_kv_heads);
  const std::int64_t repeat = a.num_heads / a.num_kv_heads;
  const at::ScalarType wide = accumulate_type(q_BHQh.scalar_type());
  const at::Tensor k = k_BGKh.repeat_interleave(repeat, 1).to(wide), v = v_BGKh.repeat_interleave(repeat, 1).to(wide);
  const at::Tensor scores =
      at::matmul(q_BHQh.to(wide), k.transpose(-1, -2)) / std::sqrt(static_cast<double>(a.head_dim));
  const at::Tensor seen =
      mask ? *mask : at::ones({q_BHQh.size(2), k.size(2)}, scores.options().dtype(at::kBool)).tril();
  const at::Tensor weights =
      at::softmax(scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity()), -1);
  return at::matmul(weights, v).to(q_BHQh.scalar_type());
}

Boundary attention(const SegmentContext& c, const Boundary& in, const Batch& batch) {
  return attention(c, in, batch, [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const bool plain = !c.options.reference && whole_sequences(document_spans(batch), batch.tokens_BS.size(0));
    return attend(c, q, k, v, plain ? std::nullopt : std::optional<at::Tensor>(attention_mask(batch, q.device())));
  });
}

Boundary extend_attention(const SegmentContext& c, const Boundary& in, const NewTokens& tokens,
                          KeyValueCache::Layer& cache) {
  return attention(c, in, tokens.batch, [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    std::vector<at::Tensor> results;
    std::int64_t begin = 0;
    for (const NewTokens::Run& run : tokens.runs) {
      const auto with_cached = [&](const at::Tensor& all_NCGh, const at::Tensor& new_1GTh) {
        const at::Tensor slot_CGh = all_NCGh.select(0, run.slot);
        slot_CGh.narrow(0, run.past, run.count).copy_(new_1GTh[0].narrow(1, begin, run.count).transpose(0, 1));
        return slot_CGh.narrow(0, 0, run.past + run.count).transpose(0, 1).unsqueeze(0);
      };
      const at::Tensor keys = with_cached(cache.keys_NCGh, k), values = with_cached(cache.values_NCGh, v);
      std::optional<at::Tensor> mask;  // a run that begins its sequence is plain causal attention
      if (run.past > 0)
        mask = at::ones({run.count, run.past + run.count}, q.options().dtype(at::kBool)).tril(run.past);
      results.push_back(attend(c, q.narrow(2, begin, run.count), keys, values, mask));
      begin += run.count;
    }
    return at::cat(results, 2);
  });
}

Boundary attention(const SegmentContext& c, const Boundary& in, const Batch& batch, const Attend& attend) {
  LayerParameters& p = *c.parameters;
  Boundary out = in;
  out.x_TD = in.x_TD + attention_output(c, in.x_TD, batch, attend);
  if (p.router == nullptr) return out;
  const at::Tensor normed = rms_norm(out.x_TD, tapped(*p.ffn_norm, in.x_TD), c.spec.norm_eps);
  const at::Tensor logits_TE = at::matmul(normed, tapped(*p.router, in.x_TD).t());
  at::Tensor valid_T;
  if (batch.documents_BS.defined()) valid_T = batch.documents_BS.reshape({-1}).to(c.options.device).ge(0);
  const model::RouterSpec& router = c.spec.moe.router;
  RouterResult routed = route(router, logits_TE, c.selection_bias_E, valid_T, batch.tokens_BS.size(0));
  out.routing = make_routing(routed.experts_TK, c.spec.moe.num_experts);
  const at::Tensor& order_R = out.routing->order_R;
  out.rows_RD = normed.index_select(0, order_R.div(router.top_k, "floor"));
  out.scores_R = routed.scores_TK.reshape({-1}).index_select(0, order_R);
  if (c.spec.moe.shared_ffn > 0) out.normed_TD = normed;
  out.aux_loss = routed.aux_loss;
  out.z_loss = routed.z_loss;
  return out;
}

Boundary shared(const SegmentContext& c, const Boundary& in) {
  Boundary out = in;
  out.shared_TD = swiglu(in.normed_TD, tapped(*c.parameters->dense_gate_up, in.normed_TD),
                         tapped(*c.parameters->dense_down, in.normed_TD), at::Tensor());
  return out;
}

Boundary experts(const SegmentContext& c, const Boundary& in) {
  Boundary out = in;
  out.rows_RD = routed_experts(c, in);
  return out;
}

Boundary combine(const SegmentContext& c, const Boundary& in) {
  const std::int64_t tokens = in.x_TD.size(0), hidden = in.x_TD.size(1);
  const at::Tensor slots = in.rows_RD.index_select(0, in.routing->inverse_R);
  Boundary out;
  out.x_TD = in.x_TD + slots.view({tokens, c.spec.moe.router.top_k, hidden}).sum(1);
  if (in.shared_TD.defined()) out.x_TD = out.x_TD + in.shared_TD;
  return out;
}

Boundary mlp(const SegmentContext& c, const Boundary& in) {
  LayerParameters& p = *c.parameters;
  Boundary out = in;
  const at::Tensor normed = rms_norm(in.x_TD, tapped(*p.ffn_norm, in.x_TD), c.spec.norm_eps);
  out.x_TD = in.x_TD + swiglu(normed, tapped(*p.dense_gate_up, in.x_TD), tapped(*p.dense_down, in.x_TD), at::Tensor());
  return out;
}

at::Tensor logits(const SegmentContext& c, const at::Tensor& x_TD) {
  const at::Tensor normed = rms_norm(x_TD, tapped(*c.ends->final_norm, x_TD), c.spec.norm_eps);
  return at::matmul(normed, tapped(*c.ends->head, x_TD).t());
}

Boundary head(const SegmentContext& c, const Boundary& in, const Batch& batch, double seed) {
  const bool training = seed != 0.0 && at::GradMode::is_enabled();
  const at::Tensor targets_T = batch.targets_BS.reshape({-1}).to(c.options.device);
  const at::Tensor weights_T = batch.weights_BS.reshape({-1}).to(c.options.device, at::kDouble);
  const std::int64_t tokens = in.x_TD.size(0);
  at::Tensor total = at::zeros({}, at::TensorOptions().device(c.options.device).dtype(at::kDouble));
  at::Tensor gradient_TD;
  if (training) gradient_TD = fresh({tokens, in.x_TD.size(1)}, in.x_TD.options());
  for (std::int64_t begin = 0; begin < tokens; begin += c.options.head_chunk_tokens) {
    const std::int64_t n = std::min(c.options.head_chunk_tokens, tokens - begin);
    at::AutoGradMode grad_mode(training);
    const at::Tensor x = in.x_TD.detach().narrow(0, begin, n).detach().set_requires_grad(training);
    const at::Tensor chunk = logits(c, x);
    const at::Tensor log_probs = at::log_softmax(chunk.to(accumulate_type(chunk.scalar_type())), -1);
    const at::Tensor picked = log_probs.gather(1, targets_T.narrow(0, begin, n).unsqueeze(1)).squeeze(1);
    // A padding token's weight is zero, but zero times an infinite loss would not be.
    const at::Tensor weight = weights_T.narrow(0, begin, n);
    const at::Tensor loss = -at::where(weight.eq(0), at::zeros_like(weight), picked.to(at::kDouble) * weight).sum();
    total = total + loss.detach();
    if (training) {
      const auto gradients = torch::autograd::grad({loss * seed}, {x});
      gradient_TD.narrow(0, begin, n).copy_(gradients[0]);
    }
  }
  Boundary out = in;
  out.loss = total;
  if (training)
    attach({out.loss}, {in.x_TD},
           [gradient_TD](std::vector<at::Tensor>) { return std::vector<at::Tensor>{gradient_TD}; });
  return out;
}

}  // namespace composite
}  // namespace trireme::nn
