#include <fmt/format.h>

#include "base/errors.h"
#include "train/checkpoint/weight_source.h"

namespace trireme::train {

void check_same_model(const model::ModelSpec& found, const model::ModelSpec& wanted, const std::string& file) {
  const auto same = [&](const char* key, const auto& a, const auto& b) {
    if (a == b) return;
    throw ConfigError({.file = file,
                       .key = fmt::format("model.{}", key),
                       .value = fmt::format("{}", a),
                       .allowed = fmt::format("the run's model has {}", b)});
  };
  same("vocab_size", found.vocab_size, wanted.vocab_size);
  same("hidden", found.hidden, wanted.hidden);
  same("num_layers", found.num_layers, wanted.num_layers);
  same("num_dense_layers", found.num_dense_layers, wanted.num_dense_layers);
  same("dense_ffn", found.dense_ffn, wanted.dense_ffn);
  same("norm_eps", found.norm_eps, wanted.norm_eps);
  same("tied_embeddings", found.tied_embeddings, wanted.tied_embeddings);
  const auto &a = found.attention, &b = wanted.attention;
  same("attention.num_heads", a.num_heads, b.num_heads);
  same("attention.num_kv_heads", a.num_kv_heads, b.num_kv_heads);
  same("attention.head_dim", a.head_dim, b.head_dim);
  same("attention.qk_norm", a.qk_norm, b.qk_norm);
  same("attention.bias", a.bias, b.bias);
  same("attention.output_bias", a.output_bias, b.output_bias);
  same("attention.rope_theta", a.rope_theta, b.rope_theta);
  same("moe.num_experts", found.moe.num_experts, wanted.moe.num_experts);
  same("moe.expert_ffn", found.moe.expert_ffn, wanted.moe.expert_ffn);
  same("moe.shared_ffn", found.moe.shared_ffn, wanted.moe.shared_ffn);
  const auto &r = found.moe.router, &s = wanted.moe.router;
  same("moe.router.top_k", r.top_k, s.top_k);
  same("moe.router.score", r.score == model::ScoreFunction::sigmoid ? "sigmoid" : "softmax",
       std::string(s.score == model::ScoreFunction::sigmoid ? "sigmoid" : "softmax"));
  same("moe.router.renormalise", r.renormalise, s.renormalise);
  same("moe.router.scale", r.scale, s.scale);
  same("moe.router.num_groups", r.num_groups, s.num_groups);
  same("moe.router.top_groups", r.top_groups, s.top_groups);
  same("moe.router.selection_bias", r.selection_bias, s.selection_bias);
}

}  // namespace trireme::train
