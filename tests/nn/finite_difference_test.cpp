// The hand-made parts of the gradient (segments, taps, losses) against central differences in float64, which know
// nothing of autograd. A step h gives an error of order h^2 times the third derivative: 1e-5 leaves about 1e-8.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "helpers.h"

namespace trireme::nn {
namespace {

struct Case {
  const char* name;
  bool reference;
  void (*change)(model::ModelSpec&);
};

class FiniteDifference : public testing::TestWithParam<Case> {};

TEST_P(FiniteDifference, GradientsOfEveryStoredParameter) {
  model::ModelSpec spec = tiny_spec();
  GetParam().change(spec);
  auto model = make_model(spec, at::kDouble, GetParam().reference, /*head_chunk_tokens=*/7);
  // Norm weights and biases start flat; moved, so that their paths matter too.
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  at::NoGradGuard no_grad;
  for (Parameter* p : model->parameters())
    if (!p->weight_decay) p->value.add_(0.1 * at::randn(p->value.sizes(), generator, p->value.options()));
  Batch batch = make_batch(2, 9, spec.vocab_size, {4, 5});
  batch.documents_BS[1].narrow(0, 7, 2).fill_(-1);
  batch.weights_BS[1].narrow(0, 7, 2).zero_();
  const double head_seed = 0.37;
  const LossSeeds seeds{.aux_loss = 0.9, .z_loss = 0.05};
  const auto objective = [&] {
    const StepLosses l = evaluate(*model, batch);
    return head_seed * l.loss + seeds.aux_loss * l.aux_loss + seeds.z_loss * l.z_loss;
  };
  const auto routes = forward_backward(*model, batch, head_seed, seeds).counts_LE;

  for (Parameter* p : model->parameters()) {
    const at::Tensor direction = at::randn(p->value.sizes(), generator, p->value.options());
    const at::Tensor start = p->value.detach().clone();
    const double h = 1e-5;
    p->value.copy_(start + h * direction);
    const double above = objective();
    p->value.copy_(start - h * direction);
    const double below = objective();
    p->value.copy_(start);
    const double measured = (above - below) / (2 * h), computed = (p->grad * direction).sum().item<double>();
    EXPECT_NEAR(computed, measured, 2e-6 * std::max(1.0, std::abs(measured))) << p->name;
  }
  EXPECT_EQ(routes, evaluate(*model, batch).counts_LE);
}

void plain(model::ModelSpec&) {}
void with_losses(model::ModelSpec& s) {
  s.moe.router.aux_loss_coefficient = 1;
  s.moe.router.z_loss_coefficient = 1;
}
void everything(model::ModelSpec& s) {
  with_losses(s);
  s.attention.qk_norm = s.attention.bias = s.attention.output_bias = true;
  s.moe.num_experts = 6;
  s.moe.shared_ffn = 11;
  s.moe.router.score = model::ScoreFunction::sigmoid;
  s.moe.router.num_groups = 3;
  s.moe.router.top_groups = 2;
  s.moe.router.scale = 2.5;
  s.moe.router.selection_bias = true;
  s.moe.router.aux_loss_level = model::AuxLossLevel::micro_batch;
  s.tied_embeddings = true;
}
void not_renormalised(model::ModelSpec& s) {
  with_losses(s);
  s.moe.router.renormalise = false;
}

INSTANTIATE_TEST_SUITE_P(All, FiniteDifference,
                         testing::Values(Case{"reference_plain", true, plain},
                                         Case{"reference_losses", true, with_losses},
                                         Case{"reference_everything", true, everything},
                                         Case{"reference_not_renormalised", true, not_renormalised},
                                         Case{"fused_plain", false, plain}, Case{"fused_losses", false, with_losses},
                                         Case{"fused_everything", false, everything},
                                         Case{"fused_not_renormalised", false, not_renormalised}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace trireme::nn
