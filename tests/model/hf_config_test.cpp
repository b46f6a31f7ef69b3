#include "model/hf_config.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/untrainable.h"

namespace trireme::model {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What transformers 5.24 writes for MixtralConfig() and Qwen3MoeConfig(), without the fields of no consequence.
const json kMixtral5 = json::parse(R"({"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
  "head_dim": null, "hidden_act": "silu", "max_position_embeddings": 131072, "initializer_range": 0.02,
  "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "sliding_window": null, "attention_dropout": 0.0,
  "num_experts_per_tok": 2, "num_local_experts": 8, "output_router_logits": false, "router_aux_loss_coef": 0.001,
  "router_jitter_noise": 0.0, "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}})");
const json kQwen5 = json::parse(R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048,
  "intermediate_size": 6144, "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 4,
  "hidden_act": "silu", "max_position_embeddings": 32768, "initializer_range": 0.02, "rms_norm_eps": 1e-06,
  "tie_word_embeddings": false, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
  "attention_bias": false, "use_sliding_window": false, "sliding_window": null, "attention_dropout": 0.0,
  "decoder_sparse_step": 1, "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_local_experts": 128,
  "norm_topk_prob": false, "router_aux_loss_coef": 0.001, "mlp_only_layers": []})");

json with(json config, const char* patch) {
  config.merge_patch(json::parse(patch));
  return config;
}

// merge_patch removes keys that are null in the patch; this sets them.
json with_null(json config, const char* key) {
  config[key] = nullptr;
  return config;
}

std::string error_of(const json& config) {
  try {
    from_hf_config(config, "config.json");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(HfConfig, Mixtral) {
  const ModelSpec spec = from_hf_config(kMixtral5, "config.json");
  EXPECT_EQ(spec.family, Family::mixtral);
  EXPECT_EQ(spec.hidden, 4096);
  EXPECT_EQ(spec.attention.head_dim, 128);
  EXPECT_EQ(spec.attention.num_kv_heads, 8);
  EXPECT_EQ(spec.attention.rope_theta, 1e6);
  EXPECT_EQ(spec.norm_eps, 1e-5);
  EXPECT_EQ(spec.moe.num_experts, 8);
  EXPECT_EQ(spec.moe.expert_ffn, 14336);
  EXPECT_TRUE(spec.moe.router.renormalise);
  EXPECT_FALSE(spec.attention.qk_norm);
  EXPECT_EQ(spec.num_moe_layers(), 32);
  // Absent keys have transformers' defaults, which are these.
  EXPECT_EQ(from_hf_config({{"model_type", "mixtral"}}, "config.json"), spec);
  // transformers 4.
  const json four = with(kMixtral5, R"({"rope_parameters": null, "rope_theta": 1000000.0})");
  ASSERT_FALSE(four.contains("rope_parameters"));
  EXPECT_EQ(from_hf_config(four, "config.json"), spec);
}

// A multimodal model's config.json: the language model in text_config, by which errors name keys.
TEST(HfConfig, TheLanguageModelOfAMultimodalConfig) {
  const json nested{{"model_type", "some_vlm"}, {"vision_config", {{"depth", 3}}}, {"text_config", kMixtral5}};
  EXPECT_EQ(from_hf_config(nested, "config.json"), from_hf_config(kMixtral5, "config.json"));
  json wrong = nested;
  wrong["text_config"]["hidden_act"] = "relu";
  try {
    from_hf_config(wrong, "config.json");
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().key, "text_config.hidden_act");
  }
  wrong["text_config"]["model_type"] = "mystery";
  try {
    from_hf_config(wrong, "config.json");
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().key, "text_config.model_type");
  }
}

TEST(HfConfig, Qwen3Moe) {
  const ModelSpec spec = from_hf_config(kQwen5, "config.json");
  EXPECT_EQ(spec.family, Family::qwen3_moe);
  EXPECT_TRUE(spec.attention.qk_norm);
  EXPECT_EQ(spec.attention.head_dim, 64);  // 2048 / 32: transformers' getattr(config, "head_dim", quotient)
  EXPECT_EQ(spec.attention.rope_theta, 1e4);
  EXPECT_EQ(spec.moe.num_experts, 128);
  EXPECT_EQ(spec.moe.expert_ffn, 768);
  EXPECT_FALSE(spec.moe.router.renormalise);
  EXPECT_EQ(from_hf_config({{"model_type", "qwen3_moe"}}, "config.json"), spec);
  const ModelSpec other = from_hf_config(
      with(kQwen5, R"({"head_dim": 128, "norm_topk_prob": true, "attention_bias": true, "num_local_experts": null,
                       "num_experts": 64, "tie_word_embeddings": true})"),
      "config.json");
  EXPECT_EQ(other.attention.head_dim, 128);
  EXPECT_TRUE(other.moe.router.renormalise);
  EXPECT_TRUE(other.attention.bias && other.attention.output_bias);
  EXPECT_EQ(other.moe.num_experts, 64);
  EXPECT_TRUE(other.tied_embeddings);
}

// transformers: layer i is MoE if i is not in mlp_only_layers and (i + 1) % decoder_sparse_step == 0.
TEST(HfConfig, QwenDenseLayersComeFirstOrAlternate) {
  const ModelSpec spec = from_hf_config(with(kQwen5, R"({"mlp_only_layers": [1, 0]})"), "config.json");
  EXPECT_EQ(spec.num_dense_layers, 2);
  EXPECT_EQ(spec.dense_ffn, 6144);
  const ModelSpec every_other = from_hf_config(with(kQwen5, R"({"decoder_sparse_step": 2})"), "config.json");
  EXPECT_EQ(every_other.num_dense_layers, 0);
  EXPECT_EQ(every_other.moe.every, 2);
  EXPECT_EQ(every_other.moe.offset, 1);
  // Steps of 3 leave layers 2, 5, 8, ... to experts; without layer 2 the first five are dense.
  const ModelSpec later = from_hf_config(with(kQwen5, R"({"decoder_sparse_step": 3, "mlp_only_layers": [2]})"), "c");
  EXPECT_EQ(later.num_dense_layers, 5);
  EXPECT_EQ(later.moe.every, 3);
  EXPECT_FALSE(later.is_moe(2));
  EXPECT_TRUE(later.is_moe(5));
  EXPECT_EQ(
      error_of(with(kQwen5, R"({"mlp_only_layers": [0, 3]})")),
      "config.json: mlp_only_layers = [0,3]: leaves dense layers in no order: they must be the first ones, or all "
      "but every so many");
  // Step 2 with two layers: layer 0 dense, layer 1 MoE.
  EXPECT_EQ(from_hf_config(with(kQwen5, R"({"decoder_sparse_step": 2, "num_hidden_layers": 2})"), "c").num_dense_layers,
            1);
}

TEST(HfConfig, WindowsAndScaledRotationsAreReadAndNotTrained) {
  const auto reasons = [](const json& config) {
    std::vector<std::string> out;
    for (const Untrainable& u : untrainable(from_hf_config(config, "config.json"))) out.push_back(u.key);
    return out;
  };
  EXPECT_THAT(reasons(with(kMixtral5, R"({"sliding_window": 4096})")), ElementsAre("model.attention.window"));
  EXPECT_THAT(reasons(with(kMixtral5, R"({"sliding_window": 131072})")), IsEmpty());  // never masks
  EXPECT_THAT(reasons(with(kQwen5, R"({"sliding_window": 4096})")), IsEmpty());       // switched off
  const char* window = R"({"use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 0})";
  EXPECT_THAT(reasons(with(kQwen5, window)), ElementsAre("model.attention.window"));
  EXPECT_THAT(reasons(with(kQwen5, R"({"use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 24})")),
              IsEmpty());
  EXPECT_THAT(reasons(with(kMixtral5, R"({"rope_parameters": {"rope_type": "yarn"}})")),
              ElementsAre("model.attention.rope_scaling"));
  EXPECT_THAT(reasons(with(kMixtral5, R"({"rope_scaling": {"type": "linear", "factor": 2.0}})")),
              ElementsAre("model.attention.rope_scaling"));
  EXPECT_THAT(reasons(with_null(kMixtral5, "rope_scaling")), IsEmpty());
}

TEST(HfConfig, WhatASpecCannotSayIsRefused) {
  EXPECT_EQ(error_of(with(kQwen5, R"({"use_sliding_window": true, "sliding_window": 64, "max_window_layers": 3})")),
            "config.json: max_window_layers = 3: must be 0 or num_hidden_layers where windows are used");
  EXPECT_EQ(error_of(with(kMixtral5, R"({"hidden_act": "gelu"})")),
            "config.json: hidden_act = \"gelu\": must be \"silu\"");
  EXPECT_EQ(
      error_of(with(kMixtral5, R"({"rope_scaling": {"rope_type": "spiral"}})")),
      "config.json: rope_scaling.rope_type = \"spiral\": expected default, linear, dynamic, yarn, llama3 or longrope");
  EXPECT_EQ(error_of(with(kMixtral5, R"({"router_jitter_noise": 0.1})")),
            "config.json: router_jitter_noise = 0.1: must be 0");
  EXPECT_EQ(error_of(with(kMixtral5, R"({"model_type": "bert"})")),
            "config.json: model_type = \"bert\": must be one of deepseek_v2, deepseek_v3, glm4_moe, gpt_oss, kimi_k2, "
            "llama, mixtral, olmoe, qwen2_moe, qwen3_moe");
  EXPECT_EQ(error_of(json::object()),
            "config.json: model_type: must be one of deepseek_v2, deepseek_v3, glm4_moe, gpt_oss, kimi_k2, llama, "
            "mixtral, olmoe, qwen2_moe, qwen3_moe");
  EXPECT_EQ(error_of(with(kMixtral5, R"({"hidden_size": "big"})")),
            "config.json: hidden_size = \"big\": has the wrong type (string)");
  EXPECT_EQ(error_of(json::array()), "config.json: expected a JSON object");
  // 2^40 doesn't fit an int: it must not be read as 0.
  EXPECT_EQ(error_of(with(kMixtral5, R"({"hidden_size": 1099511627776})")),
            "config.json: hidden_size = 1099511627776: must be at most 2147483647");
  EXPECT_EQ(error_of(with(kMixtral5, R"({"num_hidden_layers": 2147483647})")),
            "config.json: num_hidden_layers = 2147483647: must lie in [1, 10000]");
}

TEST(HfConfig, ExportReadsBackTheSame) {
  for (const json& config :
       {kMixtral5, kQwen5, with(kQwen5, R"({"mlp_only_layers": [0], "attention_bias": true, "norm_topk_prob": true,
                                            "head_dim": 128, "tie_word_embeddings": true})")}) {
    const ModelSpec spec = from_hf_config(config, "config.json");
    const json out = to_hf_config(spec, spec.family);
    EXPECT_EQ(from_hf_config(out, "out.json"), spec) << out.dump(1);
    json four = out;
    four.erase("rope_parameters");
    EXPECT_EQ(from_hf_config(four, "out.json"), spec);
    json five = out;
    five.erase("rope_theta");
    EXPECT_EQ(from_hf_config(five, "out.json"), spec);
  }
}

TEST(HfConfig, ExportNamesWhatAFamilyCannotExpress) {
  const auto error = [](auto change, Family family) -> std::string {
    ModelSpec spec = from_hf_config(family == Family::mixtral ? kMixtral5 : kQwen5, "config.json");
    change(spec);
    try {
      to_hf_config(spec, family);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error([](ModelSpec& s) { s.moe.shared_ffn = 64; }, Family::mixtral),
            "model.moe.shared_ffn = 64: Mixtral cannot express it: it has no shared experts");
  EXPECT_EQ(error([](ModelSpec& s) { s.num_dense_layers = 1; }, Family::mixtral),
            "model.num_dense_layers = 1: Mixtral cannot express it: all its layers are MoE layers");
  EXPECT_EQ(error([](ModelSpec& s) { s.attention.qk_norm = true; }, Family::mixtral),
            "model.attention.qk_norm = true: Mixtral cannot express it: it has no query and key norms");
  EXPECT_EQ(error([](ModelSpec& s) { s.attention.qk_norm = false; }, Family::qwen3_moe),
            "model.attention.qk_norm = false: Qwen3-MoE cannot express it: it has query and key norms");
  EXPECT_EQ(error([](ModelSpec& s) { s.moe.router.score = ScoreFunction::sigmoid; }, Family::qwen3_moe),
            "model.moe.router.score = sigmoid: Qwen3-MoE cannot express it: its scores are softmax");
  EXPECT_EQ(
      error([](ModelSpec& s) { s.attention.bias = true; }, Family::qwen3_moe),
      "model.attention.output_bias = false: Qwen3-MoE cannot express it: one setting covers all four projections");
  EXPECT_THROW(to_hf_config({}, Family::trireme), ConfigError);
}

}  // namespace
}  // namespace trireme::model
