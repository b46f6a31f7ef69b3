#include "model/untrainable.h"

#include "base/errors.h"

namespace trireme::model {
namespace {

struct Findings {
  std::vector<Untrainable> list;
  void add(bool present, const char* key, const auto& value, const char* reason) {
    if (present) list.push_back({key, fmt::format("{}", value), reason});
  }
};

void look_at_attention(Findings& found, const AttentionSpec& a) {
  found.add(a.kind == AttentionKind::latent, "model.attention.kind", "\"latent\"", "latent attention");
  const bool plain = a.kind == AttentionKind::grouped;
  found.add(plain && a.q_lora_rank > 0, "model.attention.q_lora_rank", a.q_lora_rank, "low-rank queries");
  found.add(plain && a.value_dim() != a.head_dim, "model.attention.v_head_dim", a.v_head_dim,
            "values of another width than keys");
  found.add(a.window > 0, "model.attention.window", a.window, "windows");
  found.add(a.sinks, "model.attention.sinks", a.sinks, "attention sinks");
  found.add(a.qk_norm_joint, "model.attention.qk_norm_joint", a.qk_norm_joint, "query and key norms over all heads");
  found.add(a.output_gate, "model.attention.output_gate", a.output_gate, "gated attention");
  found.add(a.rope_fraction != 1.0, "model.attention.rope_fraction", a.rope_fraction, "heads rotated in part");
  found.add(a.rope_scaling != RopeScaling::none, "model.attention.rope_scaling", "set", "scaled rotary positions");
  found.add(a.shared_kv, "model.attention.shared_kv", a.shared_kv, "keys that are values");
  found.add(a.o_lora_rank > 0, "model.attention.o_lora_rank", a.o_lora_rank, "low-rank outputs");
  found.add(!a.compression.empty(), "model.attention.compression", "set", "compressed keys");
}

void look_at_moe(Findings& found, const MoeSpec& m) {
  if (m.num_experts == 0) return;
  const RouterSpec& r = m.router;
  found.add(m.every > 1, "model.moe.every", m.every, "dense layers between MoE layers");
  found.add(m.shared_gate, "model.moe.shared_gate", m.shared_gate, "a gated shared expert");
  found.add(m.expert_bias, "model.moe.expert_bias", m.expert_bias, "experts with biases");
  found.add(m.latent_dim > 0, "model.moe.latent_dim", m.latent_dim, "experts at another width than the model's");
  found.add(r.score == ScoreFunction::sqrt_softplus, "model.moe.router.score", "\"sqrt_softplus\"",
            "scores other than softmax and sigmoid");
  found.add(r.bias, "model.moe.router.bias", r.bias, "a router with a trained bias");
  found.add(r.scores_input, "model.moe.router.scores_input", r.scores_input, "scores on an expert's input");
  found.add(r.group_by_maximum && r.num_groups > 1, "model.moe.router.group_by_maximum", r.group_by_maximum,
            "groups scored by their best expert");
}

}  // namespace

std::vector<Untrainable> untrainable(const ModelSpec& spec) {
  Findings found;
  found.add(!spec.gated, "model.gated", spec.gated, "feed-forwards of two matrices");
  found.add(spec.activation != Activation::silu, "model.activation", "set", "activations other than silu");
  found.add(spec.mlp_bias, "model.mlp_bias", spec.mlp_bias, "feed-forwards with biases");
  found.add(spec.norm == NormKind::layer, "model.norm", "\"layer\"", "layer norms");
  found.add(spec.sandwich_norms, "model.sandwich_norms", spec.sandwich_norms, "sandwich norms");
  found.add(spec.learned_positions > 0, "model.learned_positions", spec.learned_positions, "learned positions");
  found.add(spec.residual_streams > 1, "model.residual_streams", spec.residual_streams, "hyper-connections");
  found.add(spec.mtp_depth > 0, "model.mtp_depth", spec.mtp_depth, "multi-token prediction");
  found.add(!spec.pattern.empty(), "model.pattern", "\"" + spec.pattern + "\"", "layers of one block each");
  look_at_attention(found, spec.attention);
  look_at_moe(found, spec.moe);
  found.add(spec.linear.kind != LinearMixerKind::none, "model.linear.kind", "set", "linear mixers");
  return found.list;
}

void refuse_untrainable(const ModelSpec& spec, const std::string& file) {
  const std::vector<Untrainable> found = untrainable(spec);
  if (found.empty()) return;
  std::string reasons;
  for (const Untrainable& u : found) reasons += (reasons.empty() ? "" : ", ") + u.reason;
  throw ConfigError({.file = file,
                     .key = found[0].key,
                     .value = found[0].value,
                     .allowed = fmt::format("this model can be planned but not trained yet: it has {}", reasons)});
}

}  // namespace trireme::model
