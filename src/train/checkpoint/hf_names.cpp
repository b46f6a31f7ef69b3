#include "train/checkpoint/hf_names.h"

#include <map>

#include <fmt/format.h>

#include "base/errors.h"

namespace trireme::train {
namespace {

using model::Family;

// "layers.3.attention.q.weight" -> "attention.q.weight".
std::string inside_layer(const model::ParameterSpec& parameter) {
  return parameter.name.substr(fmt::format("layers.{}.", parameter.layer).size());
}

// "experts.5.gate.weight" -> "gate".
std::string matrix_of(const std::string& name) {
  const std::size_t end = name.rfind('.');
  const std::size_t begin = name.rfind('.', end - 1) + 1;
  return name.substr(begin, end - begin);
}

std::string expert_name(const model::ParameterSpec& parameter, Family family) {
  const std::string matrix = matrix_of(parameter.name);
  if (family == Family::qwen3_moe) return fmt::format("mlp.experts.{}.{}_proj.weight", parameter.expert, matrix);
  static const std::map<std::string, const char*> numbers{{"gate", "w1"}, {"down", "w2"}, {"up", "w3"}};
  return fmt::format("block_sparse_moe.experts.{}.{}.weight", parameter.expert, numbers.at(matrix));
}

}  // namespace

std::string hf_name(const model::ParameterSpec& parameter, Family family) {
  TRIREME_CHECK(family != Family::trireme, "not a family of transformers");
  static const std::map<std::string, const char*> ends{{"embed.weight", "model.embed_tokens.weight"},
                                                       {"final_norm.weight", "model.norm.weight"},
                                                       {"head.weight", "lm_head.weight"}};
  static const std::map<std::string, const char*> inside{
      {"attention_norm.weight", "input_layernorm.weight"},
      {"ffn_norm.weight", "post_attention_layernorm.weight"},
      {"attention.q_norm.weight", "self_attn.q_norm.weight"},
      {"attention.k_norm.weight", "self_attn.k_norm.weight"},
      {"attention.q.weight", "self_attn.q_proj.weight"},
      {"attention.k.weight", "self_attn.k_proj.weight"},
      {"attention.v.weight", "self_attn.v_proj.weight"},
      {"attention.o.weight", "self_attn.o_proj.weight"},
      {"attention.q.bias", "self_attn.q_proj.bias"},
      {"attention.k.bias", "self_attn.k_proj.bias"},
      {"attention.v.bias", "self_attn.v_proj.bias"},
      {"attention.o.bias", "self_attn.o_proj.bias"},
      {"mlp.gate.weight", "mlp.gate_proj.weight"},
      {"mlp.up.weight", "mlp.up_proj.weight"},
      {"mlp.down.weight", "mlp.down_proj.weight"},
  };
  if (parameter.layer < 0) {
    const auto found = ends.find(parameter.name);
    TRIREME_CHECK(found != ends.end(), "no Hugging Face name for {}", parameter.name);
    return found->second;
  }
  const std::string name = inside_layer(parameter);
  const auto in_layer = [&](const std::string& rest) {
    return fmt::format("model.layers.{}.{}", parameter.layer, rest);
  };
  if (parameter.expert >= 0) return in_layer(expert_name(parameter, family));
  if (name == "router.weight")
    return in_layer(family == Family::mixtral ? "block_sparse_moe.gate.weight" : "mlp.gate.weight");
  const auto found = inside.find(name);
  TRIREME_CHECK(found != inside.end(), "no Hugging Face name for {}", parameter.name);
  return in_layer(found->second);
}

FusedExpert hf_fused_expert(const model::ParameterSpec& parameter, int expert_ffn) {
  const std::string matrix = matrix_of(parameter.name);
  return {
      fmt::format("model.layers.{}.mlp.experts.{}", parameter.layer, matrix == "down" ? "down_proj" : "gate_up_proj"),
      matrix == "up" ? expert_ffn : 0};
}

std::string hf_fused_router(int layer) {
  return fmt::format("model.layers.{}.mlp.gate.weight", layer);
}

}  // namespace trireme::train
