#include "model/hf_config.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/untrainable.h"

namespace trireme::model {
namespace {

using nlohmann::json;

void refuse_inexpressible(const ModelSpec& spec, Family family) {
  const char* name = family == Family::mixtral ? "Mixtral" : "Qwen3-MoE";
  // What nn doesn't compute either these families don't have.
  refuse_untrainable(spec, "");
  const AttentionSpec& a = spec.attention;
  const RouterSpec& r = spec.moe.router;
  const auto require = [&](bool holds, const char* key, const auto& value, const char* allowed) {
    if (!holds)
      throw ConfigError({.key = key,
                         .value = fmt::format("{}", value),
                         .allowed = fmt::format("{} cannot express it: {}", name, allowed)});
  };
  require(spec.moe.shared_ffn == 0, "model.moe.shared_ffn", spec.moe.shared_ffn, "it has no shared experts");
  require(r.score == ScoreFunction::softmax, "model.moe.router.score", "sigmoid", "its scores are softmax");
  require(r.scale == 1.0, "model.moe.router.scale", r.scale, "must be 1");
  require(r.top_groups == r.num_groups, "model.moe.router.top_groups", r.top_groups, "its selection is not by groups");
  require(!r.selection_bias, "model.moe.router.selection_bias", r.selection_bias, "it has no selection bias");
  if (family == Family::mixtral) {
    require(spec.num_moe_layers() == spec.num_layers, "model.num_dense_layers", spec.num_layers - spec.num_moe_layers(),
            "all its layers are MoE layers");
    require(r.renormalise, "model.moe.router.renormalise", r.renormalise, "it renormalises");
    require(!a.qk_norm, "model.attention.qk_norm", a.qk_norm, "it has no query and key norms");
    require(!a.bias, "model.attention.bias", a.bias, "its projections have no bias");
    require(!a.output_bias, "model.attention.output_bias", a.output_bias, "its projections have no bias");
  } else {
    require(a.qk_norm, "model.attention.qk_norm", a.qk_norm, "it has query and key norms");
    require(a.bias == a.output_bias, "model.attention.output_bias", a.output_bias,
            "one setting covers all four projections");
  }
}

}  // namespace

json to_hf_config(const ModelSpec& spec, Family family) {
  if (family == Family::trireme)
    throw ConfigError({.key = "model.family", .value = "trireme", .allowed = "expected mixtral or qwen3_moe"});
  refuse_inexpressible(spec, family);
  const bool mixtral = family == Family::mixtral;
  json config = {
      {"architectures", json::array({mixtral ? "MixtralForCausalLM" : "Qwen3MoeForCausalLM"})},
      {"model_type", mixtral ? "mixtral" : "qwen3_moe"},
      {"vocab_size", spec.vocab_size},
      {"hidden_size", spec.hidden},
      {"num_hidden_layers", spec.num_layers},
      {"num_attention_heads", spec.attention.num_heads},
      {"num_key_value_heads", spec.attention.num_kv_heads},
      {"head_dim", spec.attention.head_dim},
      {"hidden_act", "silu"},
      {"rms_norm_eps", spec.norm_eps},
      {"initializer_range", spec.init_std},
      {"tie_word_embeddings", spec.tied_embeddings},
      {"attention_dropout", 0.0},
      {"max_position_embeddings", mixtral ? 131072 : 32768},
      // Both generations of transformers: 4 reads the first, 5 the second.
      {"rope_theta", spec.attention.rope_theta},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", spec.attention.rope_theta}}},
      {"num_experts_per_tok", spec.moe.router.top_k},
      {"router_aux_loss_coef", spec.moe.router.aux_loss_coefficient},
      {"sliding_window", nullptr},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"pad_token_id", nullptr},
  };
  if (mixtral) {
    config["num_local_experts"] = spec.moe.num_experts;
    config["intermediate_size"] = spec.moe.expert_ffn;
  } else {
    config["num_experts"] = spec.moe.num_experts;
    config["moe_intermediate_size"] = spec.moe.expert_ffn;
    config["intermediate_size"] = spec.dense_ffn > 0 ? spec.dense_ffn : spec.moe.expert_ffn;
    config["norm_topk_prob"] = spec.moe.router.renormalise;
    config["attention_bias"] = spec.attention.bias;
    config["use_sliding_window"] = false;
    config["decoder_sparse_step"] = 1;
    config["mlp_only_layers"] = json::array();
    for (int layer = 0; layer < spec.num_layers - spec.num_moe_layers(); ++layer)
      config["mlp_only_layers"].push_back(layer);
  }
  return config;
}

}  // namespace trireme::model
