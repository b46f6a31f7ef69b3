// A backward as a whole, as two halves in turn, and with all weights at the end: the same bits, and autograd's
// gradients.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <array>

#include "helpers.h"
#include "model_cases.h"

namespace trireme::nn {
namespace {

using model::Segment;

enum class Order { joint, in_turn, weights_last };

std::vector<std::pair<Segment, int>> places(const model::ModelSpec& spec) {
  std::vector<std::pair<Segment, int>> out{{Segment::embed, -1}};
  for (int layer = 0; layer < spec.num_layers; ++layer)
    for (const Segment segment : model::computing_segments(spec, layer)) out.emplace_back(segment, layer);
  out.emplace_back(Segment::head, -1);
  return out;
}

constexpr LossSeeds seeds{.aux_loss = 0.3, .z_loss = 0.01};

// All micro-batches' forwards, then their backwards in the same order.
void run(Model& model, const std::vector<Batch>& batches, Order order) {
  const model::ModelSpec& spec = model.spec();
  std::vector<std::vector<Saved>> saved(batches.size());
  for (std::size_t mb = 0; mb < batches.size(); ++mb) {
    Boundary b;
    for (const auto& [segment, layer] : places(spec)) {
      if (segment == Segment::experts) b.received_counts_PE = b.routing->counts_E;
      Model::Forward f = model.forward_saving(segment, layer, b, batches[mb], 0.01);
      b = std::move(f.out);
      saved[mb].push_back(std::move(f.saved));
    }
  }
  std::vector<WeightWork> later;
  for (std::vector<Saved>& of_mb : saved) {
    Boundary gradient;
    for (; !of_mb.empty(); of_mb.pop_back()) {
      if (order == Order::joint) {
        gradient = model.backward(std::move(of_mb.back()), gradient, seeds);
        continue;
      }
      Model::InputGradient result = model.backward_input(std::move(of_mb.back()), gradient, seeds);
      gradient = std::move(result.gradient);
      if (order == Order::in_turn)
        model.backward_weight(std::move(result.work));
      else
        later.push_back(std::move(result.work));
    }
  }
  for (WeightWork& work : later) model.backward_weight(std::move(work));
}

// The reference model's segments as one autograd graph a micro-batch.
void run_autograd(Model& model, const std::vector<Batch>& batches) {
  const model::ModelSpec& spec = model.spec();
  const at::AutoGradMode grad(true);
  for (const Batch& batch : batches) {
    Boundary b;
    at::Tensor total = at::zeros({}, at::kDouble);
    for (const auto& [segment, layer] : places(spec)) {
      if (segment == Segment::experts) b.received_counts_PE = b.routing->counts_E;
      b = model.forward(segment, layer, b, batch, 0.01);
      if (segment == Segment::attention && b.aux_loss.defined()) total = total + b.aux_loss * seeds.aux_loss;
      if (segment == Segment::attention && b.z_loss.defined()) total = total + b.z_loss * seeds.z_loss;
    }
    (total + b.loss).backward();  // the head's gradient carries its seed already
  }
}

// Two micro-batches with padding.
std::vector<Batch> make_batches(const model::ModelSpec& spec, const std::vector<std::int64_t>& documents) {
  std::vector<Batch> batches;
  for (const std::uint64_t seed : {1, 2}) {
    batches.push_back(make_batch(3, 70, spec.vocab_size, documents, seed));
    batches.back().documents_BS[1].narrow(0, 60, 10).fill_(-1);
    batches.back().weights_BS[1].narrow(0, 60, 10).zero_();
  }
  return batches;
}

void expect_same_bits(Model& a, Model& b) {
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_GT(a.parameters()[i]->grad.norm().item<double>(), 0) << a.parameters()[i]->name;
    EXPECT_TRUE(at::equal(a.parameters()[i]->grad, b.parameters()[i]->grad)) << a.parameters()[i]->name;
  }
}

class SplitBackward : public testing::TestWithParam<ModelCase> {
 protected:
  model::ModelSpec spec() const {
    model::ModelSpec s = tiny_spec();
    s.num_layers = 3;
    GetParam().change(s);
    return s;
  }

  void compare(at::ScalarType dtype, double tolerance) {
    const model::ModelSpec spec = this->spec();
    const std::vector<Batch> batches = make_batches(spec, GetParam().documents);
    std::array<std::unique_ptr<Model>, 3> models;
    for (const Order order : {Order::joint, Order::in_turn, Order::weights_last}) {
      auto& model = models[static_cast<std::size_t>(order)];
      model = make_model(spec, dtype, /*reference=*/false, /*head_chunk_tokens=*/50);
      run(*model, batches, order);
    }
    expect_same_bits(*models[0], *models[1]);
    expect_same_bits(*models[0], *models[2]);
    if (tolerance == 0) return;
    auto oracle = make_model(spec, dtype, /*reference=*/true);
    run_autograd(*oracle, batches);
    const Worst worst = worst_gradient_error(*models[2], *oracle);
    EXPECT_LE(worst.error, tolerance) << worst.name;
  }
};

TEST_P(SplitBackward, HasTheBitsOfTheJointOneInFloat64) {
  compare(at::kDouble, 1e-12);
}
TEST_P(SplitBackward, HasTheBitsOfTheJointOneInFloat32) {
  compare(at::kFloat, 1e-5);
}
TEST_P(SplitBackward, HasTheBitsOfTheJointOneInBfloat16) {
  compare(at::kBFloat16, 0);
}

INSTANTIATE_TEST_SUITE_P(All, SplitBackward, testing::ValuesIn(model_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SplitBackwardOfExperts, WithoutTokensIsTheJointOne) {
  model::ModelSpec spec = tiny_spec();
  spec.moe.num_experts = 16;  // 3 tokens of 2 slots: ten experts at least get none
  const std::vector<Batch> batches{make_batch(1, 3, spec.vocab_size)};
  auto joint = make_model(spec, at::kDouble, false), split = make_model(spec, at::kDouble, false);
  run(*joint, batches, Order::joint);
  run(*split, batches, Order::weights_last);
  expect_same_bits(*joint, *split);
}

// An input gradient leaves every accumulator alone; the head, which adds in its forward, has no work left.
TEST(SplitBackwardOfInputs, AddsToNoWeight) {
  const model::ModelSpec spec = tiny_spec();
  auto model = make_model(spec, at::kFloat, false);
  const Batch batch = make_batch(2, 9, spec.vocab_size);
  Boundary b;
  std::vector<Saved> saved;
  for (const auto& [segment, layer] : places(spec)) {
    if (segment == Segment::experts) b.received_counts_PE = b.routing->counts_E;
    Model::Forward f = model->forward_saving(segment, layer, b, batch, 0.01);
    b = std::move(f.out);
    saved.push_back(std::move(f.saved));
  }
  for (Parameter* p : model->parameters()) p->grad.zero_();  // the head's
  Boundary gradient;
  for (; !saved.empty(); saved.pop_back()) {
    const Segment segment = saved.back().segment;
    auto [next, work] = model->backward_input(std::move(saved.back()), gradient, {});
    gradient = std::move(next);
    EXPECT_EQ(work.empty(), segment == Segment::head || segment == Segment::combine) << model::name_of(segment);
    for (Parameter* p : model->parameters())
      EXPECT_EQ(p->grad.abs().max().item<float>(), 0) << p->name << " by " << model::name_of(segment);
  }
}

TEST(NamedTensors, KnowTheirBytesAndGiveThemAway) {
  NamedTensors t;
  const at::Tensor whole = at::zeros({10, 4});
  t.keep("whole", whole);
  t.keep("part", whole.narrow(0, 2, 3));
  t.keep("doubles", at::zeros({5}, at::kDouble));
  t.keep("nothing", at::Tensor());
  ASSERT_EQ(t.sizes().size(), 3U);
  EXPECT_EQ(t.sizes()[0].name, "whole");
  EXPECT_EQ(t.sizes()[0].bytes.value, 10 * 4 * 4);
  EXPECT_EQ(t.sizes()[1].bytes.value, 0) << "counted with the whole";
  EXPECT_EQ(t.bytes().value, 160 + 40);
  EXPECT_FALSE(t["nothing"].defined());
  EXPECT_TRUE(t.take("doubles").defined());
  EXPECT_FALSE(t["doubles"].defined());
  EXPECT_EQ(t.bytes().value, 160);
}

}  // namespace
}  // namespace trireme::nn
