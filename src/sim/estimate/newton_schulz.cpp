#include "sim/estimate/newton_schulz.h"

#include <algorithm>

namespace trireme::sim {

double newton_schulz_flops(double rows, double columns) {
  const double s = std::min(rows, columns), l = std::max(rows, columns);
  return newton_schulz_steps * 2 * s * s * (2 * l + s);
}

NewtonSchulzFlops newton_schulz_flops(const model::ModelSpec& m) {
  NewtonSchulzFlops out;
  const double D = m.hidden;
  const auto dense = [&](double rows, double columns, double count = 1) {
    const double each = newton_schulz_flops(rows, columns);
    out.dense += each * count;
    out.largest_dense = std::max(out.largest_dense, each);
  };
  const model::AttentionSpec& a = m.attention;
  const double matrices = m.gated ? 3 : 2;
  for (int layer = 0; layer < m.num_layers; ++layer) {
    if (m.mixer(layer) == model::Mixer::attention) {
      const double queries = double(a.num_heads) * a.head_dim;
      if (a.q_lora_rank > 0) {
        dense(a.q_lora_rank, D);
        dense(queries, a.q_lora_rank);
      } else {
        dense(queries, D);
      }
      if (a.kind == model::AttentionKind::latent) {
        dense(a.kv_lora_rank + a.qk_rope_dim, D);
        dense(double(a.num_heads) * (a.qk_nope_dim + a.value_dim()), a.kv_lora_rank);
      } else {
        dense(double(a.num_kv_heads) * a.head_dim, D, a.shared_kv ? 1 : 2);
      }
      dense(double(a.num_heads) * a.value_dim(), D);
    }
    switch (m.feed_forward(layer)) {
      case model::FeedForward::dense:
        dense(m.dense_ffn, D, matrices);
        break;
      case model::FeedForward::moe: {
        const double width = m.moe.latent_dim > 0 ? m.moe.latent_dim : D;
        dense(m.moe.num_experts, D);
        if (m.moe.shared_ffn > 0) dense(m.moe.shared_ffn, D, matrices);
        out.experts += m.moe.num_experts * matrices * newton_schulz_flops(m.moe.expert_ffn, width);
        break;
      }
      case model::FeedForward::none:
        break;
    }
  }
  return out;
}

double busiest_owner_flops(const Setting& s) {
  const NewtonSchulzFlops all = newton_schulz_flops(s.model);
  const plan::LayoutSpec& l = s.layout;
  const double ranks = double(std::max(1, l.dp)) * l.cp * l.tp;  // of a stage
  return std::max(all.dense / l.pp / ranks, all.largest_dense) + all.experts / l.pp / ranks;
}

}  // namespace trireme::sim
