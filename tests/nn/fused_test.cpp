// The fused kernels against the plain operators: two implementations that share only the parameter store.
#include <gtest/gtest.h>

#include "helpers.h"
#include "model_cases.h"

namespace trireme::nn {
namespace {

class Fused : public testing::TestWithParam<ModelCase> {
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

INSTANTIATE_TEST_SUITE_P(All, Fused, testing::ValuesIn(model_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace trireme::nn
