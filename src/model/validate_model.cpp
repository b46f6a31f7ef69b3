#include <algorithm>
#include <initializer_list>

#include "base/errors.h"
#include "model/model_spec.h"

namespace trireme::model {
namespace {

struct Check {
  const std::string& file;
  void operator()(bool holds, const char* key, const auto& value, std::string allowed) const {
    if (!holds)
      throw ConfigError({.file = file, .key = key, .value = fmt::format("{}", value), .allowed = std::move(allowed)});
  }
};

// Sizes beyond any model's, whose products would overflow: `sizes` multiply to a width.
void check_width(const Check& require, const char* key, std::initializer_list<int> sizes) {
  double width = 1;
  for (const int size : sizes) width *= size;
  require(width <= largest_width, key, *sizes.begin(),
          sizes.size() == 1 ? fmt::format("must be at most {}", largest_width)
                            : fmt::format("makes a width of {:.0f}: at most {}", width, largest_width));
}

void check_sizes(const Check& require, const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  const MoeSpec& m = spec.moe;
  const LinearMixerSpec& l = spec.linear;
  require(spec.num_layers <= most_layers, "model.num_layers", spec.num_layers,
          fmt::format("must be at most {}", most_layers));
  require(spec.mtp_depth <= most_layers, "model.mtp_depth", spec.mtp_depth,
          fmt::format("must be at most {}", most_layers));
  require(m.num_experts <= most_experts, "model.moe.num_experts", m.num_experts,
          fmt::format("must be at most {}", most_experts));
  check_width(require, "model.hidden", {spec.hidden, spec.residual_streams});
  check_width(require, "model.dense_ffn", {spec.dense_ffn});
  check_width(require, "model.moe.expert_ffn", {m.expert_ffn});
  check_width(require, "model.moe.shared_ffn", {m.shared_ffn});
  check_width(require, "model.moe.latent_dim", {m.latent_dim});
  check_width(require, "model.attention.num_heads", {a.num_heads, a.head_dim});
  check_width(require, "model.attention.v_head_dim", {a.v_head_dim, a.num_heads});
  check_width(require, "model.attention.q_lora_rank", {a.q_lora_rank});
  check_width(require, "model.attention.kv_lora_rank", {a.kv_lora_rank});
  check_width(require, "model.attention.qk_nope_dim", {a.qk_nope_dim});
  check_width(require, "model.attention.qk_rope_dim", {a.qk_rope_dim});
  check_width(require, "model.attention.o_lora_rank", {a.o_lora_rank, a.o_groups});
  check_width(require, "model.attention.index_heads", {a.index_heads, a.index_head_dim});
  check_width(require, "model.learned_positions", {spec.learned_positions});
  check_width(require, "model.linear.num_heads", {l.num_heads, l.head_dim});
  check_width(require, "model.linear.num_groups", {l.num_groups, l.state_dim});
  check_width(require, "model.linear.conv_width", {l.conv_width});
  // An upper bound of the largest terms; the widths above bound the rest.
  const double feed_forward =
      3.0 * spec.hidden * (double(m.num_experts) * m.expert_ffn + m.shared_ffn + spec.dense_ffn);
  const double parameters = (double(spec.num_layers) + spec.mtp_depth) * feed_forward +
                            2.0 * static_cast<double>(spec.vocab_size) * spec.hidden;
  require(parameters <= most_parameters, "model", fmt::format("about {:.3g} parameters", parameters),
          fmt::format("at most {:.0f} are counted", most_parameters));
}

void check_rotation(const Check& require, const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  require(a.rope_theta > 0, "model.attention.rope_theta", a.rope_theta, "must be positive");
  require(a.rope_fraction >= 0 && a.rope_fraction <= 1, "model.attention.rope_fraction", a.rope_fraction,
          "must lie in [0, 1]");
  if (spec.learned_positions > 0 || a.rope_fraction == 0) return;
  if (a.kind == AttentionKind::latent)
    require(a.qk_rope_dim % 2 == 0, "model.attention.qk_rope_dim", a.qk_rope_dim,
            "must be even: rotary positions turn pairs");
  else
    require(a.head_dim >= 2 && a.head_dim % 2 == 0, "model.attention.head_dim", a.head_dim,
            "must be even and at least 2: rotary positions turn pairs");
}

void check_windows(const Check& require, const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  require(a.window >= 0, "model.attention.window", a.window, "must not be negative");
  require(a.full_every >= 0, "model.attention.full_every", a.full_every, "must not be negative");
  require(a.full_every == 0 || a.window > 0, "model.attention.full_every", a.full_every,
          "needs model.attention.window: without one every layer is full");
  require(a.full_offset >= 0 && a.full_offset < std::max(a.full_every, 1), "model.attention.full_offset", a.full_offset,
          fmt::format("must lie in [0, model.attention.full_every ({}))", a.full_every));
  require(!a.chunked || a.window > 0, "model.attention.chunked", a.chunked, "needs model.attention.window");
  require(a.compression.empty() || a.compression.size() == static_cast<std::size_t>(spec.num_layers),
          "model.attention.compression", fmt::format("{} entries", a.compression.size()),
          fmt::format("must have one entry a layer ({})", spec.num_layers));
  require(std::ranges::all_of(a.compression, [](int c) { return c >= 0; }), "model.attention.compression",
          "a negative entry", "must not be negative");
  require(a.index_compression == 0 || (a.index_heads > 0 && a.index_head_dim > 0), "model.attention.index_compression",
          a.index_compression, "needs model.attention.index_heads and index_head_dim");
}

void check_attention(const Check& require, const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  require(a.num_heads >= 1, "model.attention.num_heads", a.num_heads, "must be at least 1");
  require(a.num_kv_heads >= 1 && a.num_heads % a.num_kv_heads == 0, "model.attention.num_kv_heads", a.num_kv_heads,
          fmt::format("must divide model.attention.num_heads ({})", a.num_heads));
  require(a.kind != AttentionKind::latent || a.qk_nope_dim + a.qk_rope_dim >= 1, "model.attention.qk_nope_dim",
          a.qk_nope_dim, "latent attention needs the sizes of a head: qk_nope_dim and qk_rope_dim");
  require(a.head_dim >= 1, "model.attention.head_dim", a.head_dim, "must be at least 1");
  require(a.v_head_dim >= 0, "model.attention.v_head_dim", a.v_head_dim, "must not be negative");
  require(a.q_lora_rank >= 0, "model.attention.q_lora_rank", a.q_lora_rank, "must not be negative");
  if (a.kind == AttentionKind::latent) {
    require(a.kv_lora_rank >= 1, "model.attention.kv_lora_rank", a.kv_lora_rank,
            "must be at least 1 for latent attention");
    require(a.qk_nope_dim >= 0 && a.qk_rope_dim >= 0 && a.qk_nope_dim + a.qk_rope_dim == a.head_dim,
            "model.attention.head_dim", a.head_dim,
            fmt::format("must be qk_nope_dim + qk_rope_dim ({}) for latent attention", a.qk_nope_dim + a.qk_rope_dim));
    require(a.num_kv_heads == a.num_heads, "model.attention.num_kv_heads", a.num_kv_heads,
            fmt::format("must be num_heads ({}) for latent attention", a.num_heads));
  } else {
    require(a.kv_lora_rank == 0, "model.attention.kv_lora_rank", a.kv_lora_rank,
            "needs model.attention.kind = \"latent\"");
    require(a.qk_nope_dim == 0 && a.qk_rope_dim == 0, "model.attention.qk_nope_dim", a.qk_nope_dim,
            "needs model.attention.kind = \"latent\"");
  }
  require(!a.qk_norm_joint || a.qk_norm, "model.attention.qk_norm_joint", a.qk_norm_joint,
          "needs model.attention.qk_norm");
  require(a.o_groups >= 1 && a.num_heads % a.o_groups == 0, "model.attention.o_groups", a.o_groups,
          fmt::format("must divide model.attention.num_heads ({})", a.num_heads));
  require(a.o_groups == 1 || a.o_lora_rank > 0, "model.attention.o_groups", a.o_groups,
          "needs model.attention.o_lora_rank");
  check_rotation(require, spec);
  check_windows(require, spec);
}

void check_hybrid(const Check& require, const ModelSpec& spec) {
  const LinearMixerSpec& l = spec.linear;
  bool linear = l.kind != LinearMixerKind::none && spec.pattern.empty();
  if (!spec.pattern.empty()) {
    require(spec.pattern.size() == static_cast<std::size_t>(spec.num_layers), "model.pattern", spec.pattern,
            fmt::format("must have one letter a layer ({}), not {}", spec.num_layers, spec.pattern.size()));
    const auto odd = spec.pattern.find_first_not_of("M*E-");
    require(odd == std::string::npos, "model.pattern", spec.pattern, "its letters must be of M, *, E and -");
    linear = spec.pattern.find('M') != std::string::npos;
    require(!linear || l.kind != LinearMixerKind::none, "model.pattern", spec.pattern, "its M needs model.linear.kind");
    require(spec.moe.num_experts > 0 || spec.pattern.find('E') == std::string::npos, "model.pattern", spec.pattern,
            "its E needs model.moe.num_experts");
    require(spec.num_dense_layers == 0, "model.num_dense_layers", spec.num_dense_layers,
            "must be 0 with model.pattern, which says it all");
  }
  if (!linear) return;
  require(l.num_heads >= 1, "model.linear.num_heads", l.num_heads, "must be at least 1");
  require(l.head_dim >= 1, "model.linear.head_dim", l.head_dim, "must be at least 1");
  require(l.state_dim >= 1, "model.linear.state_dim", l.state_dim, "must be at least 1");
  require(l.num_groups >= 1 && l.num_heads % l.num_groups == 0, "model.linear.num_groups", l.num_groups,
          fmt::format("must divide model.linear.num_heads ({})", l.num_heads));
  require(l.attention_offset >= 0 && l.attention_offset < std::max(l.attention_every, 1),
          "model.linear.attention_offset", l.attention_offset,
          fmt::format("must lie in [0, model.linear.attention_every ({}))", l.attention_every));
}

void check_router(const Check& require, const RouterSpec& r, int experts) {
  require(r.top_k >= 1 && r.top_k <= experts, "model.moe.router.top_k", r.top_k,
          fmt::format("must lie in [1, model.moe.num_experts ({})]", experts));
  require(r.scale > 0, "model.moe.router.scale", r.scale, "must be positive");
  require(r.num_groups >= 1 && experts % r.num_groups == 0, "model.moe.router.num_groups", r.num_groups,
          fmt::format("must divide model.moe.num_experts ({})", experts));
  const int group_size = experts / r.num_groups;
  require(r.num_groups == 1 || group_size >= 2 || r.group_by_maximum, "model.moe.router.num_groups", r.num_groups,
          "leaves groups of one expert: a group is scored by its two best");
  require(r.top_groups >= 1 && r.top_groups <= r.num_groups, "model.moe.router.top_groups", r.top_groups,
          fmt::format("must lie in [1, model.moe.router.num_groups ({})]", r.num_groups));
  require(r.top_k <= r.top_groups * group_size, "model.moe.router.top_k", r.top_k,
          fmt::format("must be at most the {} experts of model.moe.router.top_groups ({}) groups",
                      r.top_groups * group_size, r.top_groups));
  require(r.aux_loss_coefficient >= 0, "model.moe.router.aux_loss_coefficient", r.aux_loss_coefficient,
          "must not be negative");
  require(r.z_loss_coefficient >= 0, "model.moe.router.z_loss_coefficient", r.z_loss_coefficient,
          "must not be negative");
}

void check_moe(const Check& require, const ModelSpec& spec) {
  const MoeSpec& m = spec.moe;
  require(m.num_experts >= 1, "model.moe.num_experts", m.num_experts, "must not be negative");
  require(m.expert_ffn >= 1, "model.moe.expert_ffn", m.expert_ffn, "must be at least 1");
  require(m.shared_ffn >= 0, "model.moe.shared_ffn", m.shared_ffn, "must not be negative");
  require(!m.shared_gate || m.shared_ffn > 0, "model.moe.shared_gate", m.shared_gate, "needs model.moe.shared_ffn");
  require(m.latent_dim >= 0, "model.moe.latent_dim", m.latent_dim, "must not be negative");
  require(m.every >= 1, "model.moe.every", m.every, "must be at least 1");
  require(m.offset >= 0 && m.offset < m.every, "model.moe.offset", m.offset,
          fmt::format("must lie in [0, model.moe.every ({}))", m.every));
  check_router(require, m.router, m.num_experts);
}

}  // namespace

void validate(const ModelSpec& spec, const std::string& file) {
  const Check require{file};
  require(spec.vocab_size >= 1 && spec.vocab_size <= INT32_MAX, "model.vocab_size", spec.vocab_size,
          fmt::format("must lie in [1, {}]", INT32_MAX));
  require(spec.hidden >= 1, "model.hidden", spec.hidden, "must be at least 1");
  require(spec.num_layers >= 1, "model.num_layers", spec.num_layers, "must be at least 1");
  require(spec.num_dense_layers >= 0 && spec.num_dense_layers <= spec.num_layers, "model.num_dense_layers",
          spec.num_dense_layers, fmt::format("must lie in [0, model.num_layers ({})]", spec.num_layers));
  require(spec.norm_eps > 0, "model.norm_eps", spec.norm_eps, "must be positive");
  require(spec.init_std > 0, "model.init_std", spec.init_std, "must be positive");
  require(spec.learned_positions >= 0, "model.learned_positions", spec.learned_positions, "must not be negative");
  require(spec.residual_streams >= 1, "model.residual_streams", spec.residual_streams, "must be at least 1");
  require(spec.mtp_depth >= 0, "model.mtp_depth", spec.mtp_depth, "must not be negative");
  check_sizes(require, spec);
  check_attention(require, spec);
  check_hybrid(require, spec);
  if (spec.moe.num_experts != 0) check_moe(require, spec);
  bool dense = false;
  for (int layer = 0; layer < spec.num_layers + spec.mtp_blocks() && !dense; ++layer)
    dense = spec.feed_forward(layer) == FeedForward::dense;
  require(!dense || spec.dense_ffn >= 1, "model.dense_ffn", spec.dense_ffn,
          "must be at least 1: the model has dense layers");
}

}  // namespace trireme::model
