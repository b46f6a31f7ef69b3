#include "train/checkpoint/hf_names.h"

#include <set>

#include <gtest/gtest.h>

#include "model/parameters.h"

namespace trireme::train {
namespace {

using model::Family;

std::string name_in(const model::ModelSpec& spec, const std::string& parameter, Family family) {
  for (const model::ParameterSpec& p : model::parameters(spec)) {
    if (p.name == parameter) return hf_name(p, family);
  }
  return "no parameter " + parameter;
}

model::ModelSpec spec_of(Family family) {
  model::ModelSpec spec{.family = family, .vocab_size = 11, .hidden = 8, .num_layers = 2};
  spec.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4};
  spec.moe = {.num_experts = 4, .expert_ffn = 6};
  spec.moe.router.top_k = 2;
  if (family == Family::qwen3_moe) {
    spec.attention.qk_norm = spec.attention.bias = spec.attention.output_bias = true;
    spec.num_dense_layers = 1;
    spec.dense_ffn = 12;
  }
  return spec;
}

// Names as transformers' save_pretrained writes them for MixtralForCausalLM and Qwen3MoeForCausalLM.
TEST(HfNames, AreThoseOfMixtral) {
  const model::ModelSpec spec = spec_of(Family::mixtral);
  const auto name = [&](const std::string& p) { return name_in(spec, p, Family::mixtral); };
  EXPECT_EQ(name("embed.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(name("final_norm.weight"), "model.norm.weight");
  EXPECT_EQ(name("head.weight"), "lm_head.weight");
  EXPECT_EQ(name("layers.1.attention_norm.weight"), "model.layers.1.input_layernorm.weight");
  EXPECT_EQ(name("layers.1.ffn_norm.weight"), "model.layers.1.post_attention_layernorm.weight");
  EXPECT_EQ(name("layers.0.attention.q.weight"), "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(name("layers.0.attention.o.weight"), "model.layers.0.self_attn.o_proj.weight");
  EXPECT_EQ(name("layers.0.router.weight"), "model.layers.0.block_sparse_moe.gate.weight");
  EXPECT_EQ(name("layers.0.experts.3.gate.weight"), "model.layers.0.block_sparse_moe.experts.3.w1.weight");
  EXPECT_EQ(name("layers.0.experts.3.down.weight"), "model.layers.0.block_sparse_moe.experts.3.w2.weight");
  EXPECT_EQ(name("layers.0.experts.3.up.weight"), "model.layers.0.block_sparse_moe.experts.3.w3.weight");
}

TEST(HfNames, AreThoseOfQwen3Moe) {
  const model::ModelSpec spec = spec_of(Family::qwen3_moe);
  const auto name = [&](const std::string& p) { return name_in(spec, p, Family::qwen3_moe); };
  EXPECT_EQ(name("layers.0.mlp.gate.weight"), "model.layers.0.mlp.gate_proj.weight");
  EXPECT_EQ(name("layers.0.mlp.down.weight"), "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(name("layers.1.router.weight"), "model.layers.1.mlp.gate.weight");
  EXPECT_EQ(name("layers.1.experts.0.up.weight"), "model.layers.1.mlp.experts.0.up_proj.weight");
  EXPECT_EQ(name("layers.1.attention.q_norm.weight"), "model.layers.1.self_attn.q_norm.weight");
  EXPECT_EQ(name("layers.1.attention.k.bias"), "model.layers.1.self_attn.k_proj.bias");
}

TEST(HfNames, AreDistinct) {
  for (const Family family : {Family::mixtral, Family::qwen3_moe}) {
    const auto parameters = model::parameters(spec_of(family));
    std::set<std::string> names;
    for (const auto& p : parameters) names.insert(hf_name(p, family));
    EXPECT_EQ(names.size(), parameters.size());
  }
}

TEST(HfNames, OfFusedExperts) {
  for (const model::ParameterSpec& p : model::parameters(spec_of(Family::mixtral))) {
    if (p.name == "layers.1.experts.2.up.weight") {
      EXPECT_EQ(hf_fused_expert(p, 6).name, "model.layers.1.mlp.experts.gate_up_proj");
      EXPECT_EQ(hf_fused_expert(p, 6).first_row, 6);
    }
    if (p.name == "layers.1.experts.2.gate.weight") {
      EXPECT_EQ(hf_fused_expert(p, 6).first_row, 0);
    }
    if (p.name == "layers.1.experts.2.down.weight") {
      EXPECT_EQ(hf_fused_expert(p, 6).name, "model.layers.1.mlp.experts.down_proj");
    }
  }
}

}  // namespace
}  // namespace trireme::train
