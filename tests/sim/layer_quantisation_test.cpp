// What narrow formats and fused experts add to a layer's passes over memory, counted by hand.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "platform/platform_file.h"
#include "sim/estimate/layer_time.h"

namespace trireme::sim {
namespace {

Setting setting(ComputeFormat format) {
  Setting s;
  s.model.hidden = 1024, s.model.num_layers = 1, s.model.vocab_size = 8, s.model.num_dense_layers = 0;
  s.model.attention = {.num_heads = 8, .num_kv_heads = 8, .head_dim = 128};
  s.model.moe = {.num_experts = 8, .expert_ffn = 512};
  s.model.moe.router.top_k = 2;
  s.layout.dp = 1;
  s.batch = {.sequence_length = 4096, .micro_batch = 1, .global_batch = 1};
  s.precision.compute = format;
  return s;
}

double bytes_of(const Setting& s, const std::string& what, Part part, OperatorPass pass) {
  OperatorList works;
  add_layer_operators(s, 0, works);
  double sum = 0;
  for (const Operator& w : works)
    if (w.kind == OperatorKind::memory && w.what == what && w.part == part && w.pass == pass) sum += w.bytes;
  return sum;
}

// 4096 x 2 rows: 1024 wide into gate and up, 512 into down.
constexpr double up_in = 8192 * 1024, down_in = 8192 * 512, up_out = 8192 * 1024;

TEST(Quantisation, ReadsAsOftenAsTheFormatsScaleNeeds) {
  const auto input = [](const Setting& s) {
    return bytes_of(s, "quantisation of the input", Part::experts, OperatorPass::forward) / (up_in + down_in);
  };
  EXPECT_EQ(input(setting(ComputeFormat::bfloat16)), 0);
  EXPECT_EQ(input(setting(ComputeFormat::mxfp8)), 2 + 1 + 1);
  Setting s = setting(ComputeFormat::float8);
  EXPECT_EQ(input(s), 2 + 1 + 1);
  s.execution.current_scaling = true;
  EXPECT_EQ(input(s), 2 + 2 + 1 + 1);
  // The largest element, rows, and columns by a rotation: three reads of two bytes; two results of half a byte.
  EXPECT_EQ(input(setting(ComputeFormat::nvfp4)), 3 * 2 + 2 * 0.5);
}

TEST(Quantisation, FusedExpertsPassOverNothingBetweenTheirMatmuls) {
  Setting s = setting(ComputeFormat::mxfp8);
  s.execution.fused_experts = true;
  EXPECT_EQ(bytes_of(s, "quantisation of the input", Part::experts, OperatorPass::forward), 4 * up_in);
  // The gradient of down's result is 1024 wide; that of gate and up comes quantised.
  EXPECT_EQ(bytes_of(s, "quantisation of the gradient", Part::experts, OperatorPass::input_gradient), 4 * 8192 * 1024.0);
  EXPECT_EQ(bytes_of(s, "activation", Part::activation, OperatorPass::forward), 0);
  EXPECT_EQ(bytes_of(s, "activation", Part::activation, OperatorPass::input_gradient), 0);
  s.execution.fused_experts = false;
  EXPECT_EQ(bytes_of(s, "quantisation of the gradient", Part::experts, OperatorPass::input_gradient),
            4 * (8192 * 1024.0 + up_out));
  // Gate and up read, the product written, in 16 bits.
  EXPECT_EQ(bytes_of(s, "activation", Part::activation, OperatorPass::forward), 3 * 2 * down_in);
  // Biases are beyond the fused kernels.
  s.execution.fused_experts = s.model.moe.expert_bias = true;
  EXPECT_GT(bytes_of(s, "activation", Part::activation, OperatorPass::forward), 3 * 2 * down_in);
}

TEST(Attention, DropoutReadsAndWritesScoresOnceMore) {
  Setting s = setting(ComputeFormat::bfloat16);
  s.execution.fused_attention = false;
  const double scores = 8 * 4096.0 * 4096;
  const auto forward = [&] { return bytes_of(s, "softmax and dropout", Part::core, OperatorPass::forward) / scores; };
  EXPECT_EQ(forward(), 2 + 2);
  s.execution.dropout = true;
  EXPECT_EQ(forward(), 2 + 2 + 2 + 2 + 1);
}

// A release that is fast on one device would carry another past its peak.
TEST(Machine, NoReleaseMakesADeviceFasterThanItsDataSheet) {
  const platform::PlatformSpec dgx =
      platform::load_platform(std::filesystem::path(TRIREME_SOURCE_DIR) / "configs/platforms/dgx_h100.toml");
  platform::StackBehaviour fast;
  fast.slow_down = 0.5;
  const Machine m = make_machine(dgx, {}, fast, ComputeFormat::float8);
  EXPECT_DOUBLE_EQ(m.flops_16 / dgx.datasheet.peak("bfloat16"), 0.9);
  EXPECT_DOUBLE_EQ(m.flops_narrow / dgx.datasheet.peak("float8"), 0.9);
  EXPECT_DOUBLE_EQ(m.memory_bytes / dgx.datasheet.memory_bytes_per_s, 0.9);
  fast.slow_down = 1;
  EXPECT_DOUBLE_EQ(make_machine(dgx, {}, fast, ComputeFormat::bfloat16).flops_16 / dgx.datasheet.peak("bfloat16"),
                   0.75);
}

}  // namespace
}  // namespace trireme::sim
