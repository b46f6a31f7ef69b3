// config.json files with the keys that each family documents, against the shipped models and published sizes.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/hf_config.h"
#include "model/model_catalog.h"
#include "model/parameters.h"

namespace trireme::model {
namespace {

using nlohmann::json;

// The shipped model under the name that the import gives, which knows neither the release nor its losses.
ModelSpec shipped(const char* name, const ModelSpec& imported) {
  ModelSpec spec = find_model(name, TRIREME_SOURCE_DIR "/configs/models");
  spec.name = imported.name;
  spec.family = imported.family;
  spec.moe.router.aux_loss_coefficient = imported.moe.router.aux_loss_coefficient;
  return spec;
}

ModelSpec import(const char* text) {
  return from_hf_config(json::parse(text), "config.json");
}

std::string error_of(json config) {
  try {
    from_hf_config(config, "config.json");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

// transformers 4 style; `patch` is merged in.
json deepseek_v3(const char* patch = "{}") {
  json config = json::parse(R"({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
    "attention_bias": false, "attention_dropout": 0.0, "first_k_dense_replace": 3, "hidden_act": "silu",
    "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512,
    "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
    "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "factor": 40, "type": "yarn"}, "rope_theta": 10000,
    "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false, "topk_group": 4,
    "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280})");
  config.merge_patch(json::parse(patch));
  return config;
}

TEST(HfFamilies, DeepSeekV3InBothStyles) {
  const ModelSpec four = from_hf_config(deepseek_v3(), "config.json");
  EXPECT_EQ(four, shipped("deepseek_v3", four));
  // transformers 5 nests the rotation and renames the experts.
  const ModelSpec five = from_hf_config(
      deepseek_v3(R"({"rope_scaling": null, "rope_theta": null, "n_routed_experts": null, "num_local_experts": 256,
                      "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0}})"),
      "config.json");
  EXPECT_EQ(five, four);
}

TEST(HfFamilies, KimiK2HasDeepSeeksKeys) {
  const ModelSpec spec =
      from_hf_config(deepseek_v3(R"({"model_type": "kimi_k2", "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
                      "n_routed_experts": 384, "num_attention_heads": 64, "num_key_value_heads": 64,
                      "num_nextn_predict_layers": 0, "rope_theta": 50000.0, "routed_scaling_factor": 2.827,
                      "vocab_size": 163840})"),
                     "config.json");
  EXPECT_EQ(spec.name, "kimi_k2");
  EXPECT_EQ(spec, shipped("kimi_k2", spec));
}

TEST(HfFamilies, DeepSeekV2AndLite) {
  const char* v2 = R"({"model_type": "deepseek_v2", "aux_loss_alpha": 0.001, "first_k_dense_replace": 1,
    "hidden_act": "silu", "hidden_size": 5120, "intermediate_size": 12288, "kv_lora_rank": 512,
    "moe_intermediate_size": 1536, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 160, "n_shared_experts": 2,
    "norm_topk_prob": false, "num_attention_heads": 128, "num_experts_per_tok": 6, "num_hidden_layers": 60,
    "num_key_value_heads": 128, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "rms_norm_eps": 1e-06, "rope_scaling": {"type": "yarn"}, "rope_theta": 10000, "routed_scaling_factor": 16.0,
    "scoring_func": "softmax", "seq_aux": true, "topk_group": 3, "topk_method": "group_limited_greedy",
    "v_head_dim": 128, "vocab_size": 102400})";
  const ModelSpec spec = import(v2);
  EXPECT_EQ(spec, shipped("deepseek_v2", spec));
  json lite = json::parse(v2);
  lite.merge_patch(json::parse(R"({"hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
    "n_group": 1, "topk_group": 1, "n_routed_experts": 64, "num_attention_heads": 16, "num_hidden_layers": 27,
    "num_key_value_heads": 16, "routed_scaling_factor": 1.0, "topk_method": "greedy"})"));
  lite["q_lora_rank"] = nullptr;
  const ModelSpec small = from_hf_config(lite, "config.json");
  EXPECT_EQ(small, shipped("deepseek_v2_lite", small));
}

TEST(HfFamilies, GptOss) {
  json layers = json::array();
  for (int layer = 0; layer < 24; ++layer) layers.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  json config = json::parse(R"({"model_type": "gpt_oss", "attention_bias": true, "attention_dropout": 0.0,
    "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880, "intermediate_size": 2880,
    "max_position_embeddings": 131072, "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
    "num_key_value_heads": 8, "num_local_experts": 32, "rms_norm_eps": 1e-05, "rope_scaling": {"rope_type": "yarn"},
    "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "tie_word_embeddings": false,
    "vocab_size": 201088})");
  const ModelSpec by_rule = from_hf_config(config, "config.json");
  EXPECT_EQ(by_rule, shipped("gpt_oss_20b", by_rule));
  config["layer_types"] = layers;
  EXPECT_EQ(from_hf_config(config, "config.json"), by_rule);
  config["layer_types"][5] = "sliding_attention";
  EXPECT_THAT(error_of(config), testing::EndsWith("full_attention must come every so many layers, or in none or all"));
  config["layer_types"].erase(0);
  EXPECT_THAT(error_of(config), testing::EndsWith("must have num_hidden_layers (24) entries"));
}

TEST(HfFamilies, Llama) {
  const ModelSpec spec = import(R"({"model_type": "llama", "attention_bias": false, "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "mlp_bias": false, "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": false,
    "vocab_size": 128256})");
  EXPECT_EQ(spec, shipped("llama3_1_8b", spec));
  // Llama 2's files have neither key/value heads nor a base.
  const ModelSpec two = import(R"({"model_type": "llama", "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 11008, "num_attention_heads": 32, "num_hidden_layers": 32, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "vocab_size": 32000})");
  EXPECT_EQ(two, shipped("llama2_7b", two));
}

TEST(HfFamilies, Qwen2Moe) {
  const ModelSpec spec = import(R"({"model_type": "qwen2_moe", "decoder_sparse_step": 1, "hidden_act": "silu",
    "hidden_size": 3584, "intermediate_size": 18944, "max_window_layers": 28, "mlp_only_layers": [],
    "moe_intermediate_size": 2560, "norm_topk_prob": false, "num_attention_heads": 28, "num_experts": 64,
    "num_experts_per_tok": 8, "num_hidden_layers": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "shared_expert_intermediate_size": 20480, "sliding_window": 65536,
    "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_EQ(spec, shipped("qwen2_57b_a14b", spec));
}

TEST(HfFamilies, Qwen3Moe) {
  const ModelSpec spec = import(R"({"model_type": "qwen3_moe", "attention_bias": false, "decoder_sparse_step": 1,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 12288, "max_window_layers": 94,
    "mlp_only_layers": [], "moe_intermediate_size": 1536, "norm_topk_prob": true, "num_attention_heads": 64,
    "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 94, "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001,
    "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_EQ(spec, shipped("qwen3_235b_a22b", spec));
}

TEST(HfFamilies, Olmoe) {
  const char* config = R"({"model_type": "olmoe", "attention_bias": false, "clip_qkv": null, "hidden_act": "silu",
    "hidden_size": 2048, "intermediate_size": 1024, "norm_topk_prob": false, "num_attention_heads": 16,
    "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 16, "num_key_value_heads": 16,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "router_aux_loss_coef": 0.01, "tie_word_embeddings": false,
    "vocab_size": 50304})";
  const ModelSpec spec = import(config);
  EXPECT_EQ(spec, shipped("olmoe_1b_7b", spec));
  json clipped = json::parse(config);
  clipped["clip_qkv"] = 8.0;
  EXPECT_EQ(error_of(clipped), "config.json: clip_qkv = 8.0: must be null: queries, keys and values are not clipped");
}

json glm_4_5_air(const char* patch = "{}") {
  json config = json::parse(R"({"model_type": "glm4_moe", "attention_bias": true, "first_k_dense_replace": 1,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 10944,
    "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1,
    "norm_topk_prob": true, "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 46,
    "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "rope_theta": 1000000, "routed_scaling_factor": 1.0, "tie_word_embeddings": false,
    "topk_group": 1, "use_qk_norm": false, "vocab_size": 151552})");
  config.merge_patch(json::parse(patch));
  return config;
}

TEST(HfFamilies, Glm45) {
  const ModelSpec air = from_hf_config(glm_4_5_air(), "config.json");
  EXPECT_EQ(air.attention.rope_fraction, 0.5);
  EXPECT_TRUE(air.attention.bias);
  EXPECT_FALSE(air.attention.output_bias);
  EXPECT_TRUE(air.moe.router.selection_bias);
  EXPECT_EQ(air.num_dense_layers, 1);
  EXPECT_EQ(air.mtp_depth, 1);
  // Published: 106 B with 12 B active, and 355 B with 32 B active (which includes most of an MTP block of 4 B).
  EXPECT_NEAR(static_cast<double>(count_parameters(air).total) / 1e9, 106, 1);
  EXPECT_NEAR(static_cast<double>(count_parameters(air).active_without_embedding) / 1e9, 12, 1.5);
  const ModelSpec large =
      from_hf_config(glm_4_5_air(R"({"first_k_dense_replace": 3, "hidden_size": 5120, "intermediate_size": 12288,
                      "moe_intermediate_size": 1536, "n_routed_experts": 160, "num_hidden_layers": 92,
                      "routed_scaling_factor": 2.5, "use_qk_norm": true, "partial_rotary_factor": null,
                      "rope_theta": null, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000,
                      "partial_rotary_factor": 0.5}})"),
                     "config.json");
  EXPECT_TRUE(large.attention.qk_norm);
  EXPECT_EQ(large.attention.rope_fraction, 0.5);
  EXPECT_NEAR(static_cast<double>(count_parameters(large).total) / 1e9, 355, 3);
  EXPECT_NEAR(static_cast<double>(count_parameters(large).active_without_embedding) / 1e9, 32, 1.5);
}

TEST(HfFamilies, MissingAndForeignValuesAreNamed) {
  json config = deepseek_v3();
  config.erase("kv_lora_rank");
  EXPECT_EQ(error_of(config), "config.json: kv_lora_rank: this key is missing");
  EXPECT_EQ(error_of(deepseek_v3(R"({"scoring_func": "softmax"})")),
            "config.json: scoring_func = \"softmax\": must be \"sigmoid\"");
  EXPECT_EQ(error_of(deepseek_v3(R"({"topk_method": "greedy"})")),
            "config.json: topk_method = \"greedy\": must be \"noaux_tc\"");
  EXPECT_EQ(error_of(deepseek_v3(R"({"attention_bias": true})")),
            "config.json: attention_bias = true: must be false: projections have no bias");
  EXPECT_EQ(error_of(deepseek_v3(R"({"num_experts_per_tok": 300})")),
            "config.json: model.moe.router.top_k = 300: must lie in [1, model.moe.num_experts (256)]");
  EXPECT_EQ(error_of(json{{"model_type", "llama"}}), "config.json: vocab_size: this key is missing");
}

}  // namespace
}  // namespace trireme::model
