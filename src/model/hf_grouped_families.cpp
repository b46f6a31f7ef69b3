// Families with grouped-query attention.

#include <nlohmann/json.hpp>
#include "model/hf_families.h"

namespace trireme::model {
namespace {

using nlohmann::json;

// transformers 4 writes num_experts where 5 writes num_local_experts, or the reverse.
int num_experts(const HfReader& hf, int otherwise) {
  return hf.integer(hf.has("num_experts") ? "num_experts" : "num_local_experts", otherwise);
}

// transformers: a layer is MoE if it is not in mlp_only_layers and (layer + 1) % decoder_sparse_step == 0.
void read_qwen_dense_layers(const HfReader& hf, int dense_ffn, ModelSpec& spec) {
  const int step = hf.integer("decoder_sparse_step", 1);
  hf.refuse_unless(step >= 1, "decoder_sparse_step", "must be at least 1");
  std::vector<bool> dense(static_cast<std::size_t>(std::max(spec.num_layers, 0)));
  for (std::size_t layer = 0; layer < dense.size(); ++layer)
    dense[layer] = spec.moe.num_experts == 0 || (layer + 1) % static_cast<std::size_t>(step) != 0;
  if (hf.has("mlp_only_layers"))
    for (const json& layer : hf.at("mlp_only_layers")) {
      hf.refuse_unless(layer.is_number_integer(), "mlp_only_layers", "expected layer numbers");
      const auto index = layer.get<std::int64_t>();
      if (index >= 0 && index < spec.num_layers) dense[static_cast<std::size_t>(index)] = true;
    }
  set_dense_layers(hf, step > 1 ? "decoder_sparse_step" : "mlp_only_layers", dense, spec);
  if (spec.num_moe_layers() < spec.num_layers) spec.dense_ffn = hf.integer("intermediate_size", dense_ffn);
}

}  // namespace

ModelSpec from_hf_llama(const HfReader& hf) {
  ModelSpec spec{.name = "llama"};
  read_hf_common(hf, spec);
  spec.dense_ffn = hf.required("intermediate_size");
  spec.attention.bias = spec.attention.output_bias = hf.get<bool>("attention_bias", false);
  spec.mlp_bias = hf.get<bool>("mlp_bias", false);
  read_hf_rotation(hf, 1e4, spec.attention);
  return spec;
}

ModelSpec from_hf_mixtral(const HfReader& hf) {
  ModelSpec spec{.name = "mixtral", .family = Family::mixtral, .vocab_size = 32000, .hidden = 4096, .num_layers = 32};
  spec.norm_eps = 1e-5;
  spec.attention = {.num_heads = 32, .num_kv_heads = 8};
  read_hf_common(hf, spec);
  read_hf_rotation(hf, 1e6, spec.attention);
  spec.moe.num_experts = num_experts(hf, 8);
  spec.moe.expert_ffn = hf.integer("intermediate_size", 14336);
  spec.moe.router = {.top_k = hf.integer("num_experts_per_tok", 2),
                     .aux_loss_coefficient = hf.get<double>("router_aux_loss_coef", 0.001)};
  hf.refuse_unless(hf.get<double>("router_jitter_noise", 0) == 0, "router_jitter_noise", "must be 0");
  read_hf_windows(hf, spec);
  // A window at least as long as the context never masks anything.
  if (spec.attention.window >= hf.integer("max_position_embeddings", 4096 * 32)) spec.attention.window = 0;
  return spec;
}

ModelSpec from_hf_qwen2_moe(const HfReader& hf) {
  ModelSpec spec{.name = "qwen2_moe", .vocab_size = 151936, .hidden = 2048, .num_layers = 24};
  spec.attention = {.num_heads = 16, .num_kv_heads = 16};
  read_hf_common(hf, spec);
  spec.attention.bias = hf.get<bool>("qkv_bias", true);
  read_hf_rotation(hf, 1e4, spec.attention);
  spec.moe.num_experts = num_experts(hf, 60);
  spec.moe.expert_ffn = hf.integer("moe_intermediate_size", 1408);
  spec.moe.shared_ffn = hf.integer("shared_expert_intermediate_size", 5632);
  spec.moe.shared_gate = spec.moe.shared_ffn > 0;
  spec.moe.router = {.top_k = hf.integer("num_experts_per_tok", 4),
                     .renormalise = hf.get<bool>("norm_topk_prob", false),
                     .aux_loss_coefficient = hf.get<double>("router_aux_loss_coef", 0.001)};
  read_qwen_dense_layers(hf, 5632, spec);
  read_hf_switched_windows(hf, spec);
  return spec;
}

ModelSpec from_hf_qwen3_moe(const HfReader& hf) {
  ModelSpec spec{
      .name = "qwen3_moe", .family = Family::qwen3_moe, .vocab_size = 151936, .hidden = 2048, .num_layers = 24};
  spec.attention = {.num_heads = 32, .num_kv_heads = 4, .qk_norm = true};
  read_hf_common(hf, spec);
  spec.attention.bias = spec.attention.output_bias = hf.get<bool>("attention_bias", false);
  read_hf_rotation(hf, 1e4, spec.attention);
  spec.moe.num_experts = num_experts(hf, 128);
  spec.moe.expert_ffn = hf.integer("moe_intermediate_size", 768);
  spec.moe.router = {.top_k = hf.integer("num_experts_per_tok", 8),
                     .renormalise = hf.get<bool>("norm_topk_prob", false),
                     .aux_loss_coefficient = hf.get<double>("router_aux_loss_coef", 0.001)};
  read_qwen_dense_layers(hf, 6144, spec);
  read_hf_switched_windows(hf, spec);
  return spec;
}

ModelSpec from_hf_olmoe(const HfReader& hf) {
  ModelSpec spec{.name = "olmoe", .vocab_size = 50304, .hidden = 2048, .num_layers = 16};
  spec.norm_eps = 1e-5;
  spec.attention = {.num_heads = 16, .qk_norm = true, .qk_norm_joint = true};
  read_hf_common(hf, spec);
  spec.attention.bias = spec.attention.output_bias = hf.get<bool>("attention_bias", false);
  read_hf_rotation(hf, 1e4, spec.attention);
  hf.refuse_unless(!hf.has("clip_qkv"), "clip_qkv", "must be null: queries, keys and values are not clipped");
  spec.moe.num_experts = num_experts(hf, 64);
  spec.moe.expert_ffn = hf.integer("intermediate_size", 1024);
  spec.moe.router = {.top_k = hf.integer("num_experts_per_tok", 8),
                     .renormalise = hf.get<bool>("norm_topk_prob", false),
                     .aux_loss_coefficient = hf.get<double>("router_aux_loss_coef", 0.01)};
  return spec;
}

ModelSpec from_hf_gpt_oss(const HfReader& hf) {
  ModelSpec spec{.name = "gpt_oss"};
  spec.norm_eps = 1e-5;
  read_hf_common(hf, spec);
  spec.attention.bias = spec.attention.output_bias = hf.get<bool>("attention_bias", true);
  spec.attention.sinks = true;
  read_hf_rotation(hf, 150000, spec.attention);
  read_hf_windows(hf, spec);
  // transformers' rule where the list is absent: windows in layers 0, 2, 4, ...
  if (spec.attention.window > 0 && !hf.has("layer_types"))
    spec.attention.full_every = 2, spec.attention.full_offset = 1;
  spec.moe.num_experts = hf.required(hf.has("num_experts") ? "num_experts" : "num_local_experts");
  spec.moe.expert_ffn = hf.required("intermediate_size");
  spec.moe.expert_bias = true;
  // The softmax goes over the chosen logits alone.
  spec.moe.router = {.top_k = hf.required(hf.has("experts_per_token") ? "experts_per_token" : "num_experts_per_tok"),
                     .aux_loss_coefficient = hf.get<double>("router_aux_loss_coef", 0.9),
                     .bias = true};
  return spec;
}

}  // namespace trireme::model
