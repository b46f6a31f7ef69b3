// Properties of the expert path that hold whatever the weights are.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "helpers.h"

namespace trireme::nn {
namespace {

using model::Segment;

class Moe : public testing::TestWithParam<bool> {
 protected:
  bool reference() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(All, Moe, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "reference" : "fused"); });

// Permuted rows weighted by 1/K and summed again are the input, and so is the gradient: experts that do nothing leave
// normed_TD, whatever the routing.
TEST_P(Moe, DispatcherIsTheIdentityForEqualProbabilities) {
  model::ModelSpec spec = tiny_spec();
  spec.moe.router.top_k = 4;
  auto model = make_model(spec, at::kDouble, reference());
  const Batch batch = make_batch(2, 9, spec.vocab_size);
  Boundary in;
  in.x_TD = at::randn({18, spec.hidden}, at::kDouble);
  Boundary out;
  {
    at::NoGradGuard no_grad;
    out = model->forward(Segment::attention, 1, in, batch);
  }
  // The rows as the experts would return them with scores of 1/4.
  Boundary back;
  back.x_TD = at::zeros_like(in.x_TD);
  back.rows_RD = out.rows_RD * 0.25;
  back.routing = out.routing;
  auto [sum, saved] = model->forward_saving(Segment::combine, 1, back, batch);
  // Row by row what the router saw: the first slot of each token holds it.
  const at::Tensor first = out.rows_RD.index_select(0, out.routing->inverse_R.view({18, 4}).select(1, 0));
  EXPECT_LE(relative_error(sum.x_TD, first), 1e-15);

  Boundary gradient;
  gradient.x_TD = at::randn_like(in.x_TD);
  const Boundary grad_in = model->backward(std::move(saved), gradient, {});
  EXPECT_TRUE(at::equal(grad_in.x_TD, gradient.x_TD));
  const at::Tensor slots =
      (grad_in.rows_RD * 0.25).index_select(0, out.routing->inverse_R).view({18, 4, spec.hidden}).sum(1);
  EXPECT_LE(relative_error(slots, gradient.x_TD), 1e-15);
}

TEST_P(Moe, RowsAreSortedByExpertTokenSlot) {
  model::ModelSpec spec = tiny_spec();
  auto model = make_model(spec, at::kFloat, reference());
  const Batch batch = make_batch(2, 16, spec.vocab_size);
  at::NoGradGuard no_grad;
  const Boundary out = model->forward(Segment::attention, 1, {.x_TD = at::randn({32, spec.hidden})}, batch);
  const auto* order = out.routing->order_R.const_data_ptr<std::int64_t>();
  const auto* inverse = out.routing->inverse_R.const_data_ptr<std::int64_t>();
  std::int64_t row = 0;
  for (std::int64_t count : out.routing->counts_E) {
    for (std::int64_t i = 0; i < count; ++i, ++row) {
      if (i > 0) {
        EXPECT_LT(order[row - 1], order[row]);
      }
      EXPECT_EQ(inverse[order[row]], row);
    }
  }
  EXPECT_EQ(row, 64);  // 32 tokens, 2 slots each
}

// Equal logits everywhere: the lower ids win, and every token has the same experts.
TEST_P(Moe, TiesGoToTheLowerExpert) {
  model::ModelSpec spec = tiny_spec();
  auto model = make_model(spec, at::kFloat, reference());
  at::NoGradGuard no_grad;
  for (Parameter* p : model->parameters())
    if (p->name == "layers.1.router.weight") p->value.zero_();
  const Boundary out =
      model->forward(Segment::attention, 1, {.x_TD = at::randn({8, spec.hidden})}, make_batch(1, 8, spec.vocab_size));
  EXPECT_EQ(out.routing->counts_E, (std::vector<std::int64_t>{8, 8, 0, 0, 0}));
  EXPECT_TRUE(at::equal(out.scores_R, at::full({16}, 0.5f)));
}

// A selection bias decides who is chosen and leaves the scores alone.
TEST_P(Moe, SelectionBiasOnlySelects) {
  model::ModelSpec spec = tiny_spec();
  spec.moe.router.selection_bias = true;
  spec.moe.router.renormalise = false;
  auto model = make_model(spec, at::kFloat, reference());
  at::NoGradGuard no_grad;
  model->selection_bias(1).copy_(at::tensor({0.0f, 0.0f, 0.0f, 50.0f, 100.0f}));
  for (Parameter* p : model->parameters())
    if (p->name == "layers.1.router.weight") p->value.zero_();
  const Boundary out =
      model->forward(Segment::attention, 1, {.x_TD = at::randn({8, spec.hidden})}, make_batch(1, 8, spec.vocab_size));
  EXPECT_EQ(out.routing->counts_E, (std::vector<std::int64_t>{0, 0, 0, 8, 8}));
  EXPECT_TRUE(at::allclose(out.scores_R, at::full({16}, 0.2f)));  // a softmax over five equal logits
  EXPECT_FALSE(model->selection_bias(0).defined());               // a dense layer has none
}

// More experts than tokens, so that most have no row: everything stays finite and experts without rows get a gradient
// of exactly zero.
TEST_P(Moe, MoreExpertsThanTokens) {
  model::ModelSpec spec = tiny_spec();
  spec.moe.num_experts = 16;
  auto model = make_model(spec, at::kDouble, reference());
  const Batch batch = make_batch(1, 3, spec.vocab_size);
  const StepLosses losses = forward_backward(*model, batch, 1.0);
  EXPECT_TRUE(std::isfinite(losses.loss));
  int without_rows = 0;
  for (Parameter* p : model->parameters())
    for (const Piece& piece : p->pieces) {
      const double norm = p->piece_grad(piece).norm().item<double>();
      ASSERT_TRUE(std::isfinite(norm)) << piece.spec.name;
      if (piece.spec.expert < 0) continue;
      const bool used = losses.counts_LE[0][static_cast<std::size_t>(piece.spec.expert)] > 0;
      EXPECT_EQ(norm > 0, used) << piece.spec.name;
      without_rows += used ? 0 : 1;
    }
  EXPECT_GE(without_rows, 3 * 10);  // six rows at most, three matrices each
}

// Where the routed experts give nothing, a shared expert is a dense layer of the same weights, forward and backward.
TEST_P(Moe, ASharedExpertAloneIsADenseLayer) {
  model::ModelSpec sparse = tiny_spec();
  sparse.num_layers = 1;
  sparse.num_dense_layers = 0;
  sparse.moe.shared_ffn = sparse.dense_ffn;
  model::ModelSpec dense = sparse;
  dense.num_dense_layers = 1;
  auto a = make_model(sparse, at::kDouble, reference()), b = make_model(dense, at::kDouble, reference());
  // Of the dense layer's parameters that which plays its part in the other; all but the feed-forward's have its name.
  const auto counterpart = [&](const Parameter& of) -> Parameter& {
    std::string name = of.name;
    if (const auto at = name.find(".mlp."); at != std::string::npos) name.replace(at, 5, ".shared.");
    for (Parameter* p : a->parameters())
      if (p->name == name) return *p;
    throw std::logic_error(name);
  };
  {
    at::NoGradGuard no_grad;
    for (Parameter* p : a->parameters())
      if (p->name == "layers.0.experts.down.weight") p->value.zero_();
    for (Parameter* p : b->parameters()) p->value.copy_(counterpart(*p).value);
  }
  const Batch batch = make_batch(2, 9, sparse.vocab_size);
  const double loss = forward_backward(*b, batch, 1.0).loss;
  EXPECT_NEAR(forward_backward(*a, batch, 1.0).loss, loss, 1e-13 * std::abs(loss));
  for (Parameter* p : b->parameters()) {
    EXPECT_GT(p->grad.norm().item<double>(), 0) << p->name;
    EXPECT_LE(relative_error(counterpart(*p).grad, p->grad), 1e-12) << p->name;
  }
}

// A host that no row was sent to: the graph's edges stay, and the gradients of nothing are nothing.
TEST_P(Moe, NoRowsAtAll) {
  const model::ModelSpec spec = tiny_spec();
  auto model = make_model(spec, at::kFloat, reference());
  Boundary in;
  in.rows_RD = at::zeros({0, spec.hidden});
  in.scores_R = at::zeros({0});
  in.received_counts_PE.assign(10, 0);
  auto [out, saved] = model->forward_saving(Segment::experts, 1, in, make_batch(1, 4, spec.vocab_size));
  EXPECT_EQ(out.rows_RD.size(0), 0);
  Boundary gradient;
  gradient.rows_RD = at::zeros({0, spec.hidden});
  const Boundary grad_in = model->backward(std::move(saved), gradient, {});
  EXPECT_EQ(grad_in.rows_RD.sizes(), in.rows_RD.sizes());
  EXPECT_EQ(grad_in.scores_R.sizes(), in.scores_R.sizes());
  for (Parameter* p : model->parameters()) EXPECT_EQ(p->grad.norm().item<double>(), 0) << p->name;
}

// Rows from three ranks, source-major and with gaps, against the same rows sorted by expert as if from one rank.
TEST_P(Moe, RowsFromSeveralSources) {
  const model::ModelSpec spec = tiny_spec();
  auto several = make_model(spec, at::kDouble, reference()), one = make_model(spec, at::kDouble, reference());
  const std::vector<std::int64_t> counts_PE{2, 0, 3, 1, 0, /**/ 0, 0, 0, 4, 1, /**/ 5, 2, 0, 0, 1};
  const std::int64_t rows = 19;
  std::vector<std::int64_t> order, counts_E(5, 0);
  for (std::size_t e = 0; e < 5; ++e) {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < counts_PE.size(); begin += counts_PE[i++])
      if (i % 5 == e)
        for (std::int64_t r = 0; r < counts_PE[i]; ++r) {
          order.push_back(begin + r);
          ++counts_E[e];
        }
  }
  const at::Tensor sorted = at::tensor(order), x = at::randn({rows, spec.hidden}, at::kDouble),
                   scores = at::rand({rows}, at::kDouble), dout = at::randn({rows, spec.hidden}, at::kDouble);
  const Batch batch = make_batch(1, 4, spec.vocab_size);
  const auto run = [&](Model& model, const at::Tensor& rows_RD, const at::Tensor& scores_R, const at::Tensor& gradient,
                       std::vector<std::int64_t> counts) {
    Boundary in;
    in.rows_RD = rows_RD;
    in.scores_R = scores_R;
    in.received_counts_PE = std::move(counts);
    auto [out, saved] = model.forward_saving(Segment::experts, 1, in, batch);
    Boundary result = model.backward(std::move(saved), {.rows_RD = gradient}, {});
    result.x_TD = out.rows_RD;
    return result;
  };
  const Boundary a = run(*several, x, scores, dout, counts_PE);
  const Boundary b =
      run(*one, x.index_select(0, sorted), scores.index_select(0, sorted), dout.index_select(0, sorted), counts_E);
  EXPECT_LE(relative_error(a.x_TD.index_select(0, sorted), b.x_TD), 1e-14);
  EXPECT_LE(relative_error(a.rows_RD.index_select(0, sorted), b.rows_RD), 1e-14);
  EXPECT_LE(relative_error(a.scores_R.index_select(0, sorted), b.scores_R), 1e-14);
  const Worst worst = worst_gradient_error(*several, *one);
  EXPECT_LE(worst.error, 1e-14) << worst.name;
}

// Two hosts with half of the experts each hold, together, what one host of all computes.
TEST_P(Moe, ExpertsOfTwoHosts) {
  const model::ModelSpec spec = tiny_spec();
  auto all = make_model(spec, at::kDouble, reference());
  const at::Tensor x = at::randn({12, spec.hidden}, at::kDouble), scores = at::rand({12}, at::kDouble);
  const Batch batch = make_batch(1, 4, spec.vocab_size);
  at::NoGradGuard no_grad;
  const auto run = [&](Model& model, std::int64_t begin, std::vector<std::int64_t> counts) {
    const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    Boundary in;
    in.rows_RD = x.narrow(0, begin, rows);
    in.scores_R = scores.narrow(0, begin, rows);
    in.received_counts_PE = std::move(counts);
    return model.forward(Segment::experts, 1, in, batch).rows_RD;
  };
  const at::Tensor whole = run(*all, 0, {3, 4, 1, 0, 4});
  Hosted first = whole_model(spec), second = first;
  first.experts = {0, 1, 2};
  second.experts = {3, 4};
  Model a(spec, first, {.dtype = at::kDouble, .reference = reference()});
  Model b(spec, second, {.dtype = at::kDouble, .reference = reference()});
  a.initialise(7);
  b.initialise(7);
  EXPECT_LE(relative_error(at::cat({run(a, 0, {3, 4, 1}), run(b, 8, {0, 4})}), whole), 1e-15);
}

}  // namespace
}  // namespace trireme::nn
