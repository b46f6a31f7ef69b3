// Every layout computes what one process computes: gradients of step 1 by norm, losses over 20 steps. The single
// process uses neither executor nor plan nor fused kernels (run_single). Tolerances: float32 1e-5 and 1e-4, float64
// 1e-12 and 1e-10 (relative), i.e. the rounding of sums in another order.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/tiny_run.h"

namespace trireme::testing {
namespace {

struct Layout {
  int pp, dp, ep;
  DType dtype;
};

std::string name_of_layout(const ::testing::TestParamInfo<Layout>& info) {
  const auto& [pp, dp, ep, dtype] = info.param;
  return fmt::format("pp{}_dp{}_ep{}_{}", pp, dp, ep, trireme::name_of(dtype));
}

// After some float32 steps a near-tie of two experts falls the other way for a token, which the auxiliary loss (a count
// of tokens) and the norm show as a jump of some 1e-4: `other` leaves room for it.
struct Tolerance {
  double gradient, loss, other;
};
Tolerance tolerance(DType dtype) {
  return dtype == DType::float64 ? Tolerance{1e-12, 1e-10, 1e-10} : Tolerance{1e-5, 1e-4, 2e-3};
}

void expect_same_series(const std::vector<double>& a, const std::vector<double>& b, double relative, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i])) << what << ", step " << i;
}

void expect_parity(const Trace& layout, const Trace& single, DType dtype) {
  const Tolerance t = tolerance(dtype);
  std::string name;
  EXPECT_LE(worst_error(layout.gradients, single.gradients, &name), t.gradient) << name;
  expect_same_series(layout.losses, single.losses, t.loss, "loss");
  expect_same_series(layout.aux_losses, single.aux_losses, t.other, "auxiliary loss");
  expect_same_series(layout.z_losses, single.z_losses, t.other, "z loss");
  expect_same_series(layout.norms, single.norms, t.other, "gradient norm");
}

class Parity : public ::testing::TestWithParam<Layout> {};

TEST_P(Parity, GradientsAndLossesEqualTheSingleProcess) {
  const auto [pp, dp, ep, dtype] = GetParam();
  plan::RunSpec run = tiny_run();
  run.device.dtype = run.device.reduce_dtype = dtype;
  const TinyOptions options{.steps = 20};
  const Trace single = run_single(run, options);
  // The test's own premises: it learns, and nothing is trivially zero.
  ASSERT_LT(single.losses.back(), 0.9 * single.losses.front());
  ASSERT_GT(single.aux_losses.front(), 0.5);
  for (const std::string schedule : {"gpipe", "1f1b"})
    for (const int accumulation : {1, 2, 8}) {
      SCOPED_TRACE(fmt::format("{} with {} micro-batches", schedule, accumulation));
      run.layout.schedule = schedule;
      run.batch.micro_batch = run.batch.global_batch / (dp * accumulation);
      expect_parity(run_layout(run, {.pp = pp, .dp = dp, .ep = ep}, options), single, dtype);
    }
}

std::vector<Layout> layouts() {
  std::vector<Layout> out;
  for (const DType dtype : {DType::float32, DType::float64})
    for (const auto& [pp, dp, ep] : std::vector<std::array<int, 3>>{{1, 1, 1},
                                                                    {2, 1, 1},
                                                                    {1, 2, 1},
                                                                    {1, 3, 1},
                                                                    {1, 2, 2},
                                                                    {1, 4, 2},
                                                                    {2, 2, 2},
                                                                    {2, 4, 2},
                                                                    {2, 4, 4},
                                                                    {4, 1, 1}})
      out.push_back({pp, dp, ep, dtype});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Parity, ::testing::ValuesIn(layouts()), name_of_layout);

plan::RunSpec double_run() {
  plan::RunSpec run = tiny_run();
  run.device.dtype = run.device.reduce_dtype = DType::float64;
  return run;
}

TEST(ParitySpecialCases, GpipeOnOneStage) {
  plan::RunSpec run = double_run();
  run.layout.schedule = "gpipe";
  run.batch.micro_batch = 12;
  const TinyOptions options{.steps = 3};
  expect_parity(run_layout(run, {.pp = 1, .dp = 2, .ep = 2}, options), run_single(run, options), DType::float64);
}

TEST(ParitySpecialCases, MicroBatchAuxiliaryLossAtEqualSetsOfMicroBatches) {
  // The loss depends on the cut, so the single process takes the same eight micro-batches of 12 sequences.
  plan::RunSpec run = double_run();
  run.model.moe.router.aux_loss_level = model::AuxLossLevel::micro_batch;
  run.batch.micro_batch = 12;
  const TinyOptions options{.steps = 3};
  const Trace single = run_single(run, options, /*cuts=*/8);
  expect_parity(run_layout(run, {.pp = 1, .dp = 1, .ep = 1}, options), single, DType::float64);
  expect_parity(run_layout(run, {.pp = 2, .dp = 2, .ep = 2}, options), single, DType::float64);
  expect_parity(run_layout(run, {.pp = 1, .dp = 4, .ep = 2}, options), single, DType::float64);
  // And it does depend on it: four micro-batches of 24 are another loss.
  EXPECT_GT(std::abs(run_single(run, options, 4).aux_losses[0] - single.aux_losses[0]), 1e-6);
}

TEST(ParitySpecialCases, UnevenLayerSplit) {
  plan::RunSpec run = double_run();
  run.model.num_layers = 5;
  run.batch.micro_batch = 12;
  const TinyOptions options{.steps = 3};
  const Trace single = run_single(run, options);
  run.layout.stage_layers = {1, 4};
  expect_parity(run_layout(run, {.pp = 2, .dp = 2, .ep = 2}, options), single, DType::float64);
  run.layout.stage_layers = {};
  expect_parity(run_layout(run, {.pp = 3, .dp = 2, .ep = 1}, options), single, DType::float64);  // 2, 2, 1
}

TEST(ParitySpecialCases, AStageWithoutExpertsAmongStagesThatSpreadThem) {
  // The dense layer alone on stage 0: its ranks have an ep group and nothing to exchange in it.
  plan::RunSpec run = double_run();
  run.batch.micro_batch = 12;
  const TinyOptions options{.steps = 3};
  expect_parity(run_layout(run, {.pp = 4, .dp = 2, .ep = 2}, options), run_single(run, options), DType::float64);
}

TEST(ParitySpecialCases, TwoRunsGiveTheSameBits) {
  plan::RunSpec run = tiny_run();
  run.batch.micro_batch = 6;
  const TinyOptions options{.steps = 5};
  const Trace a = run_layout(run, {.pp = 2, .dp = 4, .ep = 2}, options);
  const Trace b = run_layout(run, {.pp = 2, .dp = 4, .ep = 2}, options);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.aux_losses, b.aux_losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(worst_error(a.gradients, b.gradients), 0.0);
}

TEST(ParitySpecialCases, TiedEmbeddingsOnOneAndTwoStages) {
  plan::RunSpec run = double_run();
  run.model.tied_embeddings = true;
  run.batch.micro_batch = 12;
  const TinyOptions options{.steps = 5};
  const Trace single = run_single(run, options);
  expect_parity(run_layout(run, {.pp = 1, .dp = 2, .ep = 2}, options), single, DType::float64);
  expect_parity(run_layout(run, {.pp = 2, .dp = 1, .ep = 1}, options), single, DType::float64);
  expect_parity(run_layout(run, {.pp = 2, .dp = 2, .ep = 2}, options), single, DType::float64);
  expect_parity(run_layout(run, {.pp = 4, .dp = 2, .ep = 1}, options), single, DType::float64);
}

TEST(ParitySpecialCases, MoreExpertsThanTokens) {
  // 24 experts, two tokens a micro-batch, top-2: at most 4 experts get rows.
  plan::RunSpec run = double_run();
  run.model.moe.num_experts = 24;
  run.batch = {.sequence_length = 2, .micro_batch = 1, .global_batch = 8};
  TinyOptions options{.steps = 3};
  options.batch = [](const plan::RunSpec& r, int step, std::int64_t first, std::int64_t count) {
    plan::RunSpec longer = r;
    longer.batch.sequence_length = 8;
    nn::Batch batch = tiny_batch(longer, step, first, count);
    for (at::Tensor* t :
         {&batch.tokens_BS, &batch.targets_BS, &batch.weights_BS, &batch.positions_BS, &batch.documents_BS})
      *t = t->narrow(1, 0, 2).contiguous();
    batch.weights_BS.fill_(1.0);
    return batch;
  };
  const Trace single = run_single(run, options);
  expect_parity(run_layout(run, {.pp = 1, .dp = 2, .ep = 2}, options), single, DType::float64);
  expect_parity(run_layout(run, {.pp = 2, .dp = 4, .ep = 4}, options), single, DType::float64);
}

TEST(ParitySpecialCases, ARankWhoseExpertsGetNoTokens) {
  // Sigmoid scores with a selection bias that keeps every token on experts 0 to 3: with ep 2 the second rank receives
  // no row, in any layer. (Pitfall 13: it must enter every collective all the same.)
  plan::RunSpec run = double_run();
  run.model.moe.router.score = model::ScoreFunction::sigmoid;
  run.model.moe.router.selection_bias = true;
  run.batch.micro_batch = 12;
  TinyOptions options{.steps = 3};
  options.adjust = [](nn::Model& m) {
    for (int i = 0; i < m.hosted().layers.num_layers; ++i)
      if (m.spec().is_moe(m.hosted().layers.first_layer + i))
        m.selection_bias(m.hosted().layers.first_layer + i).narrow(0, 0, 4).fill_(5.0);
  };
  const Trace single = run_single(run, options);
  for (const auto& [layer, counts] : single.router_counts[0])
    for (int e = 4; e < 8; ++e) ASSERT_EQ(counts[e], 0) << "layer " << layer;
  expect_parity(run_layout(run, {.pp = 1, .dp = 2, .ep = 2}, options), single, DType::float64);
  expect_parity(run_layout(run, {.pp = 2, .dp = 2, .ep = 2}, options), single, DType::float64);
}

TEST(ParitySpecialCases, SelectionBiasIsCountedOnceAStep) {
  plan::RunSpec run = double_run();
  run.model.moe.router.score = model::ScoreFunction::sigmoid;
  run.model.moe.router.selection_bias = true;
  run.model.moe.router.selection_bias_rate = 0.01;
  run.batch.micro_batch = 12;
  const TinyOptions options{.steps = 6};
  const Trace single = run_single(run, options);
  for (const auto& [pp, dp, ep] : std::vector<std::array<int, 3>>{{1, 1, 1}, {2, 2, 2}, {1, 4, 2}}) {
    SCOPED_TRACE(fmt::format("pp {} dp {} ep {}", pp, dp, ep));
    const Trace layout = run_layout(run, {.pp = pp, .dp = dp, .ep = ep}, options);
    expect_parity(layout, single, DType::float64);
    EXPECT_EQ(layout.router_counts, single.router_counts);
    // Steps of a float32 rate: the same numbers, in the same order.
    EXPECT_EQ(worst_error(layout.biases, single.biases), 0.0);
  }
}

TEST(ParitySpecialCases, BFloat16ParametersWithFloat32Accumulation) {
  // bfloat16 has 8 bits: the layouts agree with the float32 run to a few per cent, and accumulators are float32.
  plan::RunSpec run = tiny_run();
  run.batch.micro_batch = 12;
  const TinyOptions options{.steps = 3};
  const Trace wide = run_single(run, options);
  run.device.dtype = DType::bfloat16;
  const Trace narrow = run_layout(run, {.pp = 2, .dp = 2, .ep = 2}, options);
  const Trace alone = run_layout(run, {.pp = 1, .dp = 1, .ep = 1}, options);
  expect_same_series(narrow.losses, wide.losses, 0.02, "loss");
  expect_same_series(narrow.losses, alone.losses, 0.02, "loss");
  // Counts and auxiliary losses are in float64 whatever the parameters are: they don't grow with the stages.
  expect_same_series(narrow.aux_losses, alone.aux_losses, 0.02, "auxiliary loss");
  EXPECT_LE(relative_error(narrow.gradients.at("embed.weight"), wide.gradients.at("embed.weight")), 0.2);
  run.device.reduce_dtype = DType::bfloat16;  // messages too
  expect_same_series(run_layout(run, {.pp = 1, .dp = 2, .ep = 1}, options).losses, wide.losses, 0.02, "loss");
}

}  // namespace
}  // namespace trireme::testing
