// The fused kernels against the plain operators: two implementations that share only the parameter store.
#include <gtest/gtest.h>

#include "helpers.h"

namespace trireme::nn {
namespace {

struct Case {
  const char* name;
  void (*change)(model::ModelSpec&);
  std::vector<std::int64_t> documents;
};

class Fused : public testing::TestWithParam<Case> {
 protected:
  model::ModelSpec spec_ = [] {
    model::ModelSpec s = tiny_spec();
    GetParam().change(s);
    return s;
  }();

  void compare(at::ScalarType dtype, double tolerance) {
    auto fused = make_model(spec_, dtype, /*reference=*/false, /*head_chunk_tokens=*/50);
    auto plain = make_model(spec_, dtype, /*reference=*/true);
    for (Model* m : {fused.get(), plain.get()})
      for (int layer = 0; layer < spec_.num_layers; ++layer)
        if (at::Tensor& bias = m->selection_bias(layer); bias.defined())
          bias.copy_(at::arange(spec_.moe.num_experts, at::kFloat).remainder(3) * 0.1);
    Batch batch = make_batch(3, 70, spec_.vocab_size, GetParam().documents);
    batch.documents_BS[1].narrow(0, 60, 10).fill_(-1);
    batch.weights_BS[1].narrow(0, 60, 10).zero_();
    const LossSeeds seeds{.aux_loss = 0.3, .z_loss = 0.01};
    const StepLosses a = forward_backward(*fused, batch, 0.01, seeds), b = forward_backward(*plain, batch, 0.01, seeds);
    EXPECT_EQ(a.counts_LE, b.counts_LE);
    EXPECT_NEAR(a.loss, b.loss, tolerance * std::abs(b.loss));
    EXPECT_NEAR(a.aux_loss, b.aux_loss, tolerance * std::abs(b.aux_loss));
    EXPECT_NEAR(a.z_loss, b.z_loss, tolerance * std::abs(b.z_loss));
    const Worst worst = worst_gradient_error(*fused, *plain);
    EXPECT_LE(worst.error, tolerance) << worst.name;
    const StepLosses evaluated = evaluate(*fused, batch);
    EXPECT_DOUBLE_EQ(evaluated.loss, a.loss);
  }
};

TEST_P(Fused, EqualsPlainOperatorsInFloat64) {
  compare(at::kDouble, 1e-12);
}
TEST_P(Fused, EqualsPlainOperatorsInFloat32) {
  compare(at::kFloat, 1e-5);
}

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

INSTANTIATE_TEST_SUITE_P(All, Fused,
                         testing::Values(Case{"plain", plain, {}}, Case{"losses", losses, {1, 30, 39}},
                                         Case{"qwen", qwen, {64, 6}}, Case{"deepseek", deepseek, {}},
                                         Case{"one_head", one_head, {35, 35}}, Case{"dense", dense, {}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace trireme::nn
