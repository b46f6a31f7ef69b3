#include "model/hf_config.h"

#include "base/errors.h"

namespace trireme::model {
namespace {

using nlohmann::json;

// Typed access to a config.json with transformers' defaults for absent (or null) keys.
class HfConfig {
 public:
  HfConfig(const json& config, const std::string& file, std::string prefix = "")
      : config_(config), file_(file), prefix_(std::move(prefix)) {
    if (!config.is_object()) fail("", "expected a JSON object");
  }

  bool has(const char* key) const { return config_.contains(key) && !config_.at(key).is_null(); }

  template <class T>
  T get(const char* key, T otherwise) const {
    if (!has(key)) return otherwise;
    const json& value = config_.at(key);
    const bool right = std::is_same_v<T, bool>          ? value.is_boolean()
                       : std::is_same_v<T, std::string> ? value.is_string()
                       : std::is_integral_v<T>          ? value.is_number_integer()
                                                        : value.is_number();
    if (!right) fail(key, fmt::format("has the wrong type ({})", value.type_name()));
    return value.get<T>();
  }

  int integer(const char* key, int otherwise) const { return get<int>(key, otherwise); }
  HfConfig object(const char* key) const { return HfConfig(config_.at(key), file_, prefix_ + key + "."); }
  const json& at(const char* key) const { return config_.at(key); }

  [[noreturn]] void fail(const std::string& key, std::string allowed) const {
    std::string value = key.empty() || !config_.contains(key) ? "" : config_.at(key).dump();
    throw ConfigError({.file = file_, .key = prefix_ + key, .value = std::move(value), .allowed = std::move(allowed)});
  }

  void refuse_unless(bool holds, const char* key, std::string allowed) const {
    if (!holds) fail(key, std::move(allowed));
  }

 private:
  const json& config_;
  const std::string& file_;
  std::string prefix_;
};

// transformers 5 nests rope_theta and the type in `rope_parameters`; 4 has `rope_theta` and an optional `rope_scaling`.
double read_rope_theta(const HfConfig& hf, double otherwise) {
  double theta = hf.get<double>("rope_theta", otherwise);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!hf.has(key)) continue;
    const HfConfig rope = hf.object(key);
    for (const char* type : {"rope_type", "type"})
      rope.refuse_unless(rope.get<std::string>(type, "default") == "default", type,
                         "scaled rotary positions are not supported: expected \"default\"");
    rope.refuse_unless(rope.get<double>("partial_rotary_factor", 1.0) == 1.0, "partial_rotary_factor",
                       "must be 1: all of a head is rotated");
    theta = rope.get<double>("rope_theta", theta);
  }
  return theta;
}

// The MoE layers must be the last ones.
int count_dense_layers(const HfConfig& hf, int num_layers, int num_experts) {
  const int step = hf.integer("decoder_sparse_step", 1);
  hf.refuse_unless(step >= 1, "decoder_sparse_step", "must be at least 1");
  std::vector<bool> dense(static_cast<std::size_t>(std::max(num_layers, 0)));
  for (std::size_t layer = 0; layer < dense.size(); ++layer)
    dense[layer] = num_experts == 0 || (layer + 1) % static_cast<std::size_t>(step) != 0;
  if (hf.has("mlp_only_layers"))
    for (const json& layer : hf.at("mlp_only_layers")) {
      hf.refuse_unless(layer.is_number_integer(), "mlp_only_layers", "expected layer numbers");
      const auto index = layer.get<std::int64_t>();
      if (index >= 0 && index < num_layers) dense[static_cast<std::size_t>(index)] = true;
    }
  int count = 0;
  while (count < num_layers && dense[static_cast<std::size_t>(count)]) ++count;
  for (int layer = count; layer < num_layers; ++layer)
    hf.refuse_unless(
        !dense[static_cast<std::size_t>(layer)], step > 1 ? "decoder_sparse_step" : "mlp_only_layers",
        fmt::format("makes layer {} dense after MoE layer {}: dense layers must come first", layer, count));
  return count;
}

void read_common(const HfConfig& hf, ModelSpec& spec) {
  hf.refuse_unless(hf.get<std::string>("hidden_act", "silu") == "silu", "hidden_act", "must be \"silu\"");
  hf.refuse_unless(hf.get<double>("attention_dropout", 0) == 0, "attention_dropout", "must be 0");
  spec.init_std = hf.get<double>("initializer_range", 0.02);
  spec.tied_embeddings = hf.get<bool>("tie_word_embeddings", false);
  // Absent and null both mean the quotient.
  spec.attention.head_dim =
      hf.integer("head_dim", spec.attention.num_heads > 0 ? spec.hidden / spec.attention.num_heads : 0);
  spec.moe.router.score = ScoreFunction::softmax;
  spec.moe.router.aux_loss_coefficient = hf.get<double>("router_aux_loss_coef", 0.001);
}

ModelSpec from_mixtral(const HfConfig& hf) {
  ModelSpec spec{.name = "mixtral", .family = Family::mixtral};
  spec.vocab_size = hf.get<std::int64_t>("vocab_size", 32000);
  spec.hidden = hf.integer("hidden_size", 4096);
  spec.num_layers = hf.integer("num_hidden_layers", 32);
  spec.norm_eps = hf.get<double>("rms_norm_eps", 1e-5);
  spec.attention.num_heads = hf.integer("num_attention_heads", 32);
  spec.attention.num_kv_heads = hf.integer("num_key_value_heads", 8);
  spec.attention.rope_theta = read_rope_theta(hf, 1e6);
  spec.moe.num_experts = hf.integer(hf.has("num_experts") ? "num_experts" : "num_local_experts", 8);
  spec.moe.expert_ffn = hf.integer("intermediate_size", 14336);
  spec.moe.router.top_k = hf.integer("num_experts_per_tok", 2);
  spec.moe.router.renormalise = true;
  read_common(hf, spec);
  hf.refuse_unless(hf.get<double>("router_jitter_noise", 0) == 0, "router_jitter_noise", "must be 0");
  // A window at least as long as the context never masks anything.
  const int context = hf.integer("max_position_embeddings", 4096 * 32);
  hf.refuse_unless(hf.integer("sliding_window", context) >= context, "sliding_window",
                   "sliding-window attention is not supported: expected null");
  return spec;
}

ModelSpec from_qwen3_moe(const HfConfig& hf) {
  ModelSpec spec{.name = "qwen3_moe", .family = Family::qwen3_moe};
  spec.vocab_size = hf.get<std::int64_t>("vocab_size", 151936);
  spec.hidden = hf.integer("hidden_size", 2048);
  spec.num_layers = hf.integer("num_hidden_layers", 24);
  spec.norm_eps = hf.get<double>("rms_norm_eps", 1e-6);
  spec.attention.num_heads = hf.integer("num_attention_heads", 32);
  spec.attention.num_kv_heads = hf.integer("num_key_value_heads", 4);
  spec.attention.rope_theta = read_rope_theta(hf, 1e4);
  spec.attention.qk_norm = true;
  spec.attention.bias = spec.attention.output_bias = hf.get<bool>("attention_bias", false);
  // transformers 4 writes num_experts, 5 num_local_experts.
  spec.moe.num_experts = hf.integer(hf.has("num_experts") ? "num_experts" : "num_local_experts", 128);
  spec.moe.expert_ffn = hf.integer("moe_intermediate_size", 768);
  spec.moe.router.top_k = hf.integer("num_experts_per_tok", 8);
  spec.moe.router.renormalise = hf.get<bool>("norm_topk_prob", false);
  spec.num_dense_layers = count_dense_layers(hf, spec.num_layers, spec.moe.num_experts);
  if (spec.num_dense_layers > 0) spec.dense_ffn = hf.integer("intermediate_size", 6144);
  if (spec.num_dense_layers == spec.num_layers) spec.moe = {};  // no layer uses the experts
  read_common(hf, spec);
  hf.refuse_unless(!hf.get<bool>("use_sliding_window", false), "use_sliding_window",
                   "sliding-window attention is not supported: expected false");
  return spec;
}

void refuse_inexpressible(const ModelSpec& spec, Family family) {
  const char* name = family == Family::mixtral ? "Mixtral" : "Qwen3-MoE";
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

ModelSpec from_hf_config(const json& config, const std::string& file) {
  const HfConfig hf(config, file);
  const auto type = hf.get<std::string>("model_type", "");
  hf.refuse_unless(type == "mixtral" || type == "qwen3_moe", "model_type", "must be \"mixtral\" or \"qwen3_moe\"");
  ModelSpec spec = type == "mixtral" ? from_mixtral(hf) : from_qwen3_moe(hf);
  validate(spec, file);
  return spec;
}

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
