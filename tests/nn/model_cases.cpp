#include "model_cases.h"

namespace trireme::nn {
namespace {

void plain(model::ModelSpec&) {}
void losses(model::ModelSpec& s) {
  s.moe.router.aux_loss_coefficient = s.moe.router.z_loss_coefficient = 1;
}
void qwen(model::ModelSpec& s) {
  losses(s);
  s.attention.qk_norm = true;
  s.moe.router.aux_loss_level = model::AuxLossLevel::micro_batch;
  s.num_dense_layers = 0;
}
void deepseek(model::ModelSpec& s) {
  losses(s);
  s.moe.num_experts = 8;
  s.moe.shared_ffn = 21;
  s.moe.router.score = model::ScoreFunction::sigmoid;
  s.moe.router.num_groups = 4;
  s.moe.router.top_groups = 2;
  s.moe.router.top_k = 3;
  s.moe.router.scale = 2.5;
  s.moe.router.selection_bias = true;
  s.attention.bias = s.attention.output_bias = true;
  s.tied_embeddings = true;
}
void one_head(model::ModelSpec& s) {
  s.attention = {.num_heads = 3, .num_kv_heads = 3, .head_dim = 10};
  s.moe.router.top_k = 1;
  s.moe.router.renormalise = false;
}
void dense(model::ModelSpec& s) {
  s.moe.num_experts = 0;
}

}  // namespace

std::vector<ModelCase> model_cases() {
  return {{"plain", plain, {}},       {"losses", losses, {1, 30, 39}},  {"qwen", qwen, {64, 6}},
          {"deepseek", deepseek, {}}, {"one_head", one_head, {35, 35}}, {"dense", dense, {}}};
}

}  // namespace trireme::nn
