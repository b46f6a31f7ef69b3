#include "model/parameter_lister.h"

namespace trireme::model {
namespace {

constexpr Segment segment = Segment::attention;

void list_queries(const AttentionSpec& a, std::int64_t hidden, ParameterLister& list) {
  const std::int64_t width = std::int64_t{a.num_heads} * a.head_dim;
  if (a.q_lora_rank == 0) return list.linear("attention.q", width, hidden, segment, a.bias);
  list.linear("attention.q_a", a.q_lora_rank, hidden, segment);
  list.rms_norm("attention.q_a_norm", a.q_lora_rank, segment);
  list.linear("attention.q_b", width, a.q_lora_rank, segment, a.bias);
}

void list_keys(const AttentionSpec& a, std::int64_t hidden, ParameterLister& list) {
  if (a.kind == AttentionKind::latent) {
    list.linear("attention.kv_a", a.kv_lora_rank + a.qk_rope_dim, hidden, segment);
    list.rms_norm("attention.kv_a_norm", a.kv_lora_rank, segment);
    list.linear("attention.kv_b", std::int64_t{a.num_heads} * (a.qk_nope_dim + a.value_dim()), a.kv_lora_rank, segment);
    return;
  }
  if (a.shared_kv) {
    list.linear("attention.kv", std::int64_t{a.num_kv_heads} * a.head_dim, hidden, segment, a.bias);
    list.rms_norm("attention.kv_norm", a.head_dim, segment);
    return;
  }
  list.linear("attention.k", std::int64_t{a.num_kv_heads} * a.head_dim, hidden, segment, a.bias);
  list.linear("attention.v", std::int64_t{a.num_kv_heads} * a.value_dim(), hidden, segment, a.bias);
}

void list_output(const AttentionSpec& a, std::int64_t hidden, ParameterLister& list) {
  const std::int64_t width = std::int64_t{a.num_heads} * a.value_dim();
  if (a.output_gate) list.linear("attention.gate", width, hidden, segment);
  if (a.o_lora_rank == 0) return list.linear("attention.o", hidden, width, segment, a.output_bias);
  list.linear("attention.o_a", std::int64_t{a.o_groups} * a.o_lora_rank, width / a.o_groups, segment);
  list.linear("attention.o_b", hidden, std::int64_t{a.o_groups} * a.o_lora_rank, segment, a.output_bias);
}

void list_compressor(const std::string& name, std::int64_t ratio, std::int64_t width, bool overlap, std::int64_t hidden,
                     ParameterLister& list) {
  const std::int64_t wide = (overlap ? 2 : 1) * width;
  list.linear(name + ".kv", wide, hidden, segment);
  list.linear(name + ".gate", wide, hidden, segment);
  list.add(name + ".positions", {ratio, wide}, segment);
  list.rms_norm(name + ".norm", width, segment);
}

void list_compressed_keys(const AttentionSpec& a, std::int64_t ratio, std::int64_t hidden, ParameterLister& list) {
  if (ratio == 0) return;
  const bool index = ratio == a.index_compression;
  list_compressor("attention.compressor", ratio, a.head_dim, index, hidden, list);
  if (!index) return;
  list.linear("attention.index.q", std::int64_t{a.index_heads} * a.index_head_dim,
              a.q_lora_rank > 0 ? a.q_lora_rank : hidden, segment);
  list.linear("attention.index.weights", a.index_heads, hidden, segment);
  list_compressor("attention.index.compressor", ratio, a.index_head_dim, true, hidden, list);
}

void list_attention(const ModelSpec& spec, int layer, ParameterLister& list) {
  const AttentionSpec& a = spec.attention;
  list_queries(a, spec.hidden, list);
  list_keys(a, spec.hidden, list);
  list_output(a, spec.hidden, list);
  if (a.qk_norm && a.q_lora_rank == 0)
    list.rms_norm("attention.q_norm", a.qk_norm_joint ? std::int64_t{a.num_heads} * a.head_dim : a.head_dim, segment);
  if (a.qk_norm && a.kind == AttentionKind::grouped && !a.shared_kv)
    list.rms_norm("attention.k_norm", a.qk_norm_joint ? std::int64_t{a.num_kv_heads} * a.head_dim : a.head_dim,
                  segment);
  if (a.sinks) list.add("attention.sinks", {a.num_heads}, segment, Init::zeros);
  list_compressed_keys(a, spec.compression(layer), spec.hidden, list);
}

void list_linear_mixer(const ModelSpec& spec, ParameterLister& list) {
  const LinearMixerSpec& l = spec.linear;
  const std::int64_t inner = std::int64_t{l.num_heads} * l.head_dim, state = std::int64_t{l.num_groups} * l.state_dim;
  const bool mamba = l.kind == LinearMixerKind::mamba2;
  list.linear("mixer.in", 2 * inner + 2 * state + (mamba ? 1 : 2) * l.num_heads, spec.hidden, segment);
  list.linear("mixer.convolution", inner + 2 * state, l.conv_width, segment, mamba);
  list.add("mixer.decay", {l.num_heads}, segment);
  list.add("mixer.step_bias", {l.num_heads}, segment);
  if (mamba) list.add("mixer.skip", {l.num_heads}, segment, Init::ones);
  list.rms_norm("mixer.norm", mamba ? inner : l.head_dim, segment);
  list.linear("mixer.out", spec.hidden, inner, segment);
}

}  // namespace

void list_mixer(const ModelSpec& spec, int layer, ParameterLister& list) {
  if (spec.mixer(layer) == Mixer::linear)
    list_linear_mixer(spec, list);
  else
    list_attention(spec, layer, list);
}

}  // namespace trireme::model
