#include "train/optim/adamw.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "train/optim/adamw_kernel.h"

namespace trireme::train {
namespace {

// A stored parameter of two pieces, "a" (first rows) and "b" (the rest).
nn::Parameter make_parameter(const at::Tensor& value, bool weight_decay = true) {
  nn::Parameter p;
  p.name = "stored";
  p.weight_decay = weight_decay;
  p.value = value.clone().requires_grad_(true);
  p.grad = at::zeros_like(value, value.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const std::int64_t half = value.numel() / 2;
  nn::Piece a, b;
  a.spec.name = "a", a.spec.shape = {half};
  b.spec.name = "b", b.spec.shape = {value.numel() - half}, b.offset = half;
  p.pieces = {a, b};
  return p;
}

void set_grad(nn::Parameter& p, const at::Tensor& grad) {
  p.grad.copy_(grad);
}

at::Tensor gradient_of_step(std::int64_t count, int step, at::ScalarType dtype) {
  const at::Tensor i = at::arange(count, at::TensorOptions().dtype(at::kDouble));
  return (at::sin(i * 0.7 + step) * at::pow(10.0, at::cos(i * 0.3) * 3)).to(dtype);
}

// By hand, lr 0.1, betas 0.5 and 0.75, eps 1e-8 (below the digits given), decay 0.5, w = 1:
//   t=1, g=2: m = 1, v = 1; m^ = 1/0.5 = 2, v^ = 1/0.25 = 4; w = 1 * 0.95 - 0.1 * 2/2 = 0.85
//   t=2, g=4: m = 0.5 + 2 = 2.5, v = 0.75 + 4 = 4.75; m^ = 2.5/0.75, v^ = 4.75/0.4375, ratio = 1.0116282;
//             w = 0.85 * 0.95 - 0.10116282 = 0.70633718
TEST(AdamW, TakesTheTwoStepsThatWeTookByHand) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const bool reference : {false, true}) {
      nn::Parameter p = make_parameter(at::ones({2}, dtype));
      AdamW optimizer({&p}, {.beta1 = 0.5, .beta2 = 0.75, .eps = 1e-8, .weight_decay = 0.5, .reference = reference});
      set_grad(p, at::full({2}, 2.0));
      optimizer.step(0.1);
      EXPECT_NEAR(p.value[0].item<double>(), 0.85, 1e-7);
      set_grad(p, at::full({2}, 4.0));
      optimizer.step(0.1);
      EXPECT_NEAR(p.value[1].item<double>(), 0.70633718, 1e-7);
      EXPECT_EQ(optimizer.num_steps(), 2);
    }
  }
}

// The same without decay: 1 - 0.1 = 0.9, then 0.9 - 0.10116282 = 0.79883718.
TEST(AdamW, LeavesOutTheDecayWhereTheParameterHasNone) {
  nn::Parameter p = make_parameter(at::ones({2}), false);
  AdamW optimizer({&p}, {.beta1 = 0.5, .beta2 = 0.75, .weight_decay = 0.5});
  set_grad(p, at::full({2}, 2.0));
  optimizer.step(0.1);
  EXPECT_NEAR(p.value[0].item<double>(), 0.9, 1e-7);
  set_grad(p, at::full({2}, 4.0));
  optimizer.step(0.1);
  EXPECT_NEAR(p.value[0].item<double>(), 0.79883718, 1e-7);
}

// The clip factor as a multiplier: gradients of 8 scaled by 0.25 are gradients of 2 (both exact in binary).
TEST(AdamW, ScalesTheGradientWithoutAPassOfItsOwn) {
  nn::Parameter a = make_parameter(at::ones({7})), b = make_parameter(at::ones({7}));
  AdamW scaled({&a}, {}), plain({&b}, {});
  set_grad(a, at::full({7}, 8.0));
  set_grad(b, at::full({7}, 2.0));
  scaled.step(0.01, 0.25);
  plain.step(0.01);
  EXPECT_TRUE(at::equal(a.value, b.value));
  EXPECT_TRUE(at::equal(a.grad, at::full({7}, 8.0)));
}

// 40,003 elements: two whole blocks, and a third that ends inside a vector. The moments agree bit for bit; the values
// to an ulp of the root, which ATen takes from a library that doesn't always round correctly.
TEST(AdamW, FusedEqualsTheComposite) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const std::int64_t count = 40003;
    const at::Tensor start = at::cos(at::arange(count, at::kDouble)).to(dtype);
    nn::Parameter a = make_parameter(start), b = make_parameter(start);
    AdamW fused({&a}, {}), composite({&b}, {.reference = true});
    for (int step = 1; step <= 5; ++step) {
      set_grad(a, gradient_of_step(count, step, a.grad.scalar_type()));
      set_grad(b, gradient_of_step(count, step, a.grad.scalar_type()));
      fused.step(1e-2 / step, 0.7);
      composite.step(1e-2 / step, 0.7);
    }
    EXPECT_FALSE(at::equal(a.value, start)) << dtype;
    for (const nn::Piece& piece : a.pieces) {
      const auto mine = fused.piece_state(a, piece), other = composite.piece_state(b, piece);
      EXPECT_TRUE(at::equal(mine.exp_avg, other.exp_avg)) << dtype;
      EXPECT_TRUE(at::equal(mine.exp_avg_sq, other.exp_avg_sq)) << dtype;
      const auto slice = [&](const at::Tensor& value) {
        return value.detach().narrow(0, piece.offset, piece.spec.count());
      };
      const at::Tensor x = mine.master.defined() ? mine.master : slice(a.value);
      const at::Tensor y = other.master.defined() ? other.master : slice(b.value);
      const double ulp = dtype == at::kDouble ? 2.2e-16 : 1.2e-7;
      EXPECT_TRUE(at::allclose(x, y, 2 * ulp, 0.1 * ulp)) << dtype;
      EXPECT_TRUE(at::equal(slice(a.value), x.to(dtype))) << dtype;
    }
  }
}

TEST(AdamW, GivesTheSameBitsWithAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    nn::Parameter p = make_parameter(at::ones({70001}));
    AdamW optimizer({&p}, {});
    for (int step = 1; step <= 3; ++step) {
      set_grad(p, gradient_of_step(70001, step, at::kFloat));
      optimizer.step(1e-3);
    }
    return p.value.detach().clone();
  };
  const at::Tensor one = run(1), three = run(3);
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(one, three));
}

// 1,000 steps of 1e-4 from 1.0: bfloat16 has 8 bits, so 1 - 1e-4 rounds to 1 each time and only a float32 master moves.
// A constant gradient gives a ratio of 1, so w = 1 - 1000 * 1e-4 = 0.9 (no decay); bfloat16's neighbours there are
// 2^-8 apart.
TEST(AdamW, KeepsFloat32MastersOfBfloat16Parameters) {
  nn::Parameter p = make_parameter(at::ones({4}, at::kBFloat16), false);
  AdamW optimizer({&p}, {});
  set_grad(p, at::ones({4}));
  for (int step = 0; step < 1000; ++step) optimizer.step(1e-4);
  const auto state = optimizer.piece_state(p, p.pieces[0]);
  EXPECT_NEAR(state.master[0].item<double>(), 0.9, 1e-4);
  EXPECT_NEAR(p.value[0].item<double>(), 0.9, 1.0 / 256);
  EXPECT_EQ(p.value.scalar_type(), at::kBFloat16);
}

// float32: 2 moments of 4 bytes; bfloat16: 2 moments and a master of 4 bytes; float64: 2 moments of 8 bytes.
TEST(AdamW, CountsItsBytes) {
  nn::Parameter f = make_parameter(at::ones({100})), h = make_parameter(at::ones({100}, at::kBFloat16)),
                d = make_parameter(at::ones({100}, at::kDouble));
  EXPECT_EQ(AdamW({&f}, {}).bytes(), 800);
  EXPECT_EQ(AdamW({&h}, {}).bytes(), 1200);
  EXPECT_EQ(AdamW({&d}, {}).bytes(), 1600);
}

TEST(AdamW, ShowsThePieceStateAsViews) {
  nn::Parameter p = make_parameter(at::ones({5}));
  AdamW optimizer({&p}, {.beta1 = 0.5});
  set_grad(p, at::arange(5));
  optimizer.step(0.1);
  const auto b = optimizer.piece_state(p, p.pieces[1]);  // elements 2, 3, 4; m = g / 2
  EXPECT_TRUE(at::equal(b.exp_avg, at::arange(2, 5) * 0.5));
  EXPECT_FALSE(b.master.defined());
  b.exp_avg.zero_();
  EXPECT_EQ(optimizer.piece_state(p, p.pieces[1]).exp_avg.sum().item<double>(), 0.0);
}

TEST(AdamW, AdoptsValues) {
  nn::Parameter p = make_parameter(at::ones({4}, at::kBFloat16));
  AdamW optimizer({&p}, {});
  {
    at::NoGradGuard no_grad;
    p.value.fill_(3);
  }
  optimizer.adopt_values();
  EXPECT_EQ(optimizer.piece_state(p, p.pieces[0]).master[0].item<double>(), 3.0);
}

TEST(AdamW, RefusesAGradientThatIsNotBound) {
  nn::Parameter p = make_parameter(at::ones({4}));
  AdamW optimizer({&p}, {});
  p.grad = at::Tensor();
  EXPECT_THROW(optimizer.step(0.1), std::logic_error);
}

}  // namespace
}  // namespace trireme::train
