#include "search/design/architectures.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/flops.h"
#include "model/parameters.h"

namespace trireme::search {

namespace {

std::vector<int> widths(const DesignSpace& space) {
  if (!space.hidden.empty()) return space.hidden;
  std::vector<int> out;
  for (int h = 2048; h <= 16384; h += h < 6144 ? 512 : 1536) out.push_back(h);
  return out;
}

std::vector<int> depths(const DesignSpace& space, int hidden) {
  if (!space.layers.empty()) return space.layers;
  std::vector<int> out;
  for (int l = std::max(8, hidden / 160); l <= hidden / 80; l += std::max(1, l / 12)) out.push_back(l);
  return out;
}

// Heads: 128 wide and as many as fill the hidden size; latent ones are more, the nearest of these to hidden / 60 (128
// at DeepSeek-V3's 7,168).
int latent_heads(int hidden) {
  int best = 16;
  for (const int heads : {16, 32, 48, 64, 96, 128, 192, 256})
    if (std::abs(heads - hidden / 60) < std::abs(best - hidden / 60)) best = heads;
  return best;
}

struct Counts {
  double total = 0, active = 0, flops = 0;
};

Counts count(const Shape& shape, const DesignSpace& space, bool flops) {
  const model::ModelSpec m = architecture(shape, space);
  const auto c = model::count_parameters(m);
  return {double(c.total), double(c.active), flops ? model::flops_per_token(m, space.sequence_length).total() : 0};
}

bool within(double value, double wanted, double tolerance) {
  return wanted <= 0 || std::abs(value / wanted - 1) <= tolerance;
}

// The width of experts at which the budget's leading figure is met; counts are linear in it. 0 where that is narrower than
// an eighth of the hidden size, or wider than twice it: such experts nobody trains.
int expert_width(Shape shape, const DesignBudget& b, const DesignSpace& space) {
  const bool by_flops = b.total <= 0;
  const auto figure = [&](int width) {
    shape.expert_ffn = width;
    const Counts c = count(shape, space, by_flops);
    return by_flops ? c.flops : c.total;
  };
  const double at_one = figure(128), slope = (figure(256) - at_one) / 128;
  const double wanted = by_flops ? b.flops_per_token : b.total;
  // A budget may be any number: the range is looked at before the width is an integer.
  const double width = std::round((128 + (wanted - at_one) / slope) / 128) * 128;
  const auto narrowest = static_cast<double>(shape.hidden / 8), widest = 2.0 * shape.hidden;
  return width >= narrowest && width <= widest ? static_cast<int>(width) : 0;
}

}  // namespace

model::ModelSpec architecture(const Shape& s, const DesignSpace& space) {
  model::ModelSpec m;
  m.vocab_size = space.vocab_size, m.hidden = s.hidden, m.num_layers = s.layers;
  m.num_dense_layers = std::min(space.dense_layers, s.layers);
  m.dense_ffn = (s.top_k + s.shared) * s.expert_ffn;
  m.moe.num_experts = s.experts, m.moe.expert_ffn = s.expert_ffn, m.moe.shared_ffn = s.shared * s.expert_ffn;
  m.moe.router.top_k = s.top_k;
  model::AttentionSpec& a = m.attention;
  a.kind = s.attention;
  if (s.attention == model::AttentionKind::latent) {
    a.num_heads = a.num_kv_heads = latent_heads(s.hidden);
    a.q_lora_rank = 1536, a.kv_lora_rank = 512, a.qk_nope_dim = 128, a.qk_rope_dim = 64, a.v_head_dim = 128,
    a.head_dim = 192;
  } else {
    a.head_dim = 128, a.num_heads = s.hidden / 128, a.num_kv_heads = 8;
    while (a.num_heads % a.num_kv_heads != 0) a.num_kv_heads /= 2;
  }
  m.name = fmt::format("{} x {}, {} experts of {}, top {} + {}, {}", s.layers, s.hidden, s.experts, s.expert_ffn,
                       s.top_k, s.shared, s.attention == model::AttentionKind::latent ? "mla" : "gqa");
  return m;
}

std::vector<model::ModelSpec> architectures(const DesignBudget& b, const DesignSpace& space) {
  std::vector<model::ModelSpec> out;
  for (const int hidden : widths(space))
    for (const int layers : depths(space, hidden))
      for (const int experts : space.experts)
        for (const int top_k : space.top_k)
          for (const int shared : space.shared)
            for (const auto attention : space.attention) {
              Shape s{.layers = layers,
                      .hidden = hidden,
                      .experts = experts,
                      .top_k = top_k,
                      .shared = shared,
                      .attention = attention};
              s.expert_ffn = expert_width(s, b, space);
              if (s.expert_ffn == 0) continue;
              const Counts c = count(s, space, b.flops_per_token > 0);
              if (within(c.total, b.total, b.tolerance) && within(c.active, b.active, b.tolerance) &&
                  within(c.flops, b.flops_per_token, b.tolerance))
                out.push_back(architecture(s, space));
            }
  return out;
}

}  // namespace trireme::search
