// Families with DeepSeek's layers: dense ones first, then shared and routed experts; latent attention but for GLM-4.5.
#include "model/hf_families.h"

namespace trireme::model {
namespace {

void read_latent_attention(const HfReader& hf, AttentionSpec& a) {
  a.kind = AttentionKind::latent;
  a.num_kv_heads = a.num_heads;
  a.q_lora_rank = hf.integer("q_lora_rank", 0);  // null: queries are not compressed
  a.kv_lora_rank = hf.required("kv_lora_rank");
  a.qk_nope_dim = hf.required("qk_nope_head_dim");
  a.qk_rope_dim = hf.required("qk_rope_head_dim");
  a.v_head_dim = hf.required("v_head_dim");
  a.head_dim = a.qk_nope_dim + a.qk_rope_dim;
  hf.refuse_unless(!hf.get<bool>("attention_bias", false), "attention_bias", "must be false: projections have no bias");
}

// transformers 5 may write num_local_experts.
void read_experts(const HfReader& hf, ModelSpec& spec) {
  MoeSpec& m = spec.moe;
  m.num_experts = hf.required(hf.has("num_local_experts") ? "num_local_experts" : "n_routed_experts");
  m.expert_ffn = hf.required("moe_intermediate_size");
  const std::int64_t shared_ffn = std::int64_t{hf.integer("n_shared_experts", 0)} * m.expert_ffn;
  hf.refuse_unless(shared_ffn >= 0 && shared_ffn <= largest_width, "n_shared_experts",
                   fmt::format("times moe_intermediate_size must lie in [0, {}]", largest_width));
  m.shared_ffn = static_cast<int>(shared_ffn);
  m.router.top_k = hf.required("num_experts_per_tok");
  m.router.scale = hf.get<double>("routed_scaling_factor", 1.0);
  m.router.num_groups = hf.integer("n_group", 1);
  m.router.top_groups = hf.integer("topk_group", m.router.num_groups);

  const int first = hf.integer("first_k_dense_replace", 0), step = hf.integer("moe_layer_freq", 1);
  hf.refuse_unless(step >= 1, "moe_layer_freq", "must be at least 1");
  std::vector<bool> dense(static_cast<std::size_t>(std::max(spec.num_layers, 0)));
  for (int layer = 0; layer < spec.num_layers; ++layer)
    dense[static_cast<std::size_t>(layer)] = layer < first || layer % step != 0;
  set_dense_layers(hf, "moe_layer_freq", dense, spec);
  if (spec.num_moe_layers() < spec.num_layers) spec.dense_ffn = hf.required("intermediate_size");
  spec.mtp_depth = hf.integer("num_nextn_predict_layers", 0);
}

// Sigmoid scores with a selection bias that balances without a loss.
void read_biased_sigmoid(const HfReader& hf, RouterSpec& r) {
  hf.refuse_unless(hf.get<std::string>("scoring_func", "sigmoid") == "sigmoid", "scoring_func", "must be \"sigmoid\"");
  hf.refuse_unless(hf.get<std::string>("topk_method", "noaux_tc") == "noaux_tc", "topk_method", "must be \"noaux_tc\"");
  r.score = ScoreFunction::sigmoid;
  r.selection_bias = true;
  r.renormalise = hf.get<bool>("norm_topk_prob", true);
  r.aux_loss_coefficient = hf.get<double>("aux_loss_alpha", 0);
}

}  // namespace

ModelSpec from_hf_deepseek_v2(const HfReader& hf) {
  ModelSpec spec{.name = "deepseek_v2"};
  read_hf_common(hf, spec);
  read_latent_attention(hf, spec.attention);
  read_hf_rotation(hf, 1e4, spec.attention);
  read_experts(hf, spec);
  RouterSpec& r = spec.moe.router;
  const auto method = hf.get<std::string>("topk_method", "greedy");
  hf.refuse_unless(method == "greedy" || method == "group_limited_greedy", "topk_method",
                   "must be \"greedy\" or \"group_limited_greedy\"");
  hf.refuse_unless(hf.get<std::string>("scoring_func", "softmax") == "softmax", "scoring_func", "must be \"softmax\"");
  if (method == "greedy") r.num_groups = r.top_groups = 1;
  r.group_by_maximum = r.num_groups > 1;
  r.renormalise = hf.get<bool>("norm_topk_prob", false);
  r.aux_loss_coefficient = hf.get<double>("aux_loss_alpha", 0.001);
  r.aux_loss_level = hf.get<bool>("seq_aux", true) ? AuxLossLevel::sequence : AuxLossLevel::micro_batch;
  return spec;
}

ModelSpec from_hf_deepseek_v3(const HfReader& hf) {
  ModelSpec spec{.name = hf.get<std::string>("model_type", "deepseek_v3")};
  read_hf_common(hf, spec);
  read_latent_attention(hf, spec.attention);
  read_hf_rotation(hf, 1e4, spec.attention);
  read_experts(hf, spec);
  read_biased_sigmoid(hf, spec.moe.router);
  return spec;
}

ModelSpec from_hf_glm4_moe(const HfReader& hf) {
  ModelSpec spec{.name = "glm4_moe"};
  spec.norm_eps = 1e-5;
  read_hf_common(hf, spec);
  spec.attention.bias = hf.get<bool>("attention_bias", false);
  spec.attention.qk_norm = hf.get<bool>("use_qk_norm", false);
  read_hf_rotation(hf, 1e4, spec.attention);
  read_experts(hf, spec);
  read_biased_sigmoid(hf, spec.moe.router);
  return spec;
}

}  // namespace trireme::model
