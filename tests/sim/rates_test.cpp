#include "sim/rates/rates.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/errors.h"
#include "sim/rates/make_rates.h"
#include "sim/rates/probed_rates.h"
#include "sim/rates/sheet_rates.h"

namespace trireme::sim {
namespace {

using plan::NodeShape;
using platform::MemoryUse;

// 100 FLOP/s, 10 B/s of memory; packages of 2 and nodes of 4 at 8 and 4 B/s, groups of 16 at 2 B/s, 1 B/s beyond.
Machine four_levels() {
  Machine m;
  m.peak = m.flops_16 = 100, m.flops_narrow = 200, m.half_rows = 10, m.attention_flops = 50, m.memory_bytes = 10;
  m.overlap = 0.7, m.launch_s = 3, m.operation_s = 2;
  m.num_levels = 4;
  m.levels[0] = {.devices = 2, .latency_s = 1, .bytes_per_s = 8, .inside = true};
  m.levels[1] = {.devices = 4, .latency_s = 1, .bytes_per_s = 4, .inside = true};
  m.levels[2] = {.devices = 16, .latency_s = 8, .bytes_per_s = 2};
  m.levels[3] = {.devices = std::numeric_limits<double>::infinity(), .latency_s = 16, .bytes_per_s = 1};
  return m;
}

// 4 GFLOP/s matmuls, 2 of several groups, 1 attention, its backward half; 8 GB/s of memory, 1 for the optimizer; a call 1
// us; hosts of 2 ranks, links of 1 GB/s and 1 us, between hosts 0.1 GB/s and 10 us.
platform::PlatformSpec curves() {
  platform::PlatformSpec p;
  p.device.launch_s = 1e-6;
  p.device.peaks = {{.flops_per_s = 5e9}};
  p.device.gemm = {{.threads = 1, .m = {1}, .n = {1}, .k = {1}, .flops_per_s = {4e9}}};
  p.device.grouped_gemm = {
      {.threads = 1, .rows = {1}, .n = {1}, .k = {1}, .groups = {1}, .flops_per_s = {2e9}}};
  p.device.attention = {{.threads = 1,
                         .sequence = {1},
                         .heads = {1},
                         .head_dim = {1},
                         .forward_flops_per_s = {1e9},
                         .backward_flops_per_s = {0.5e9}}};
  p.device.memory = {{.use = MemoryUse::copy, .threads = 1, .bytes = {1}, .bytes_per_s = {8e9}},
                     {.use = MemoryUse::elementwise, .threads = 1, .bytes = {1}, .bytes_per_s = {8e9}},
                     {.use = MemoryUse::optimizer, .threads = 1, .bytes = {1}, .bytes_per_s = {1e9}}};
  p.links = {{.level = "host", .latency_s = 1e-6, .bytes = {1}, .bytes_per_s = {1e9}},
             {.level = "network", .latency_s = 10e-6, .bytes = {1}, .bytes_per_s = {1e8}}};
  return p;
}

TEST(SheetRates, PriceWorkByWhatLimitsIt) {
  const SheetRates rates(four_levels());
  // 2 x 10 x 10 x 10 FLOPs at 100 a second are 20 s; 10 (1/10 + 1/10 + 1/10) more of it.
  Operator matmul{.kind = OperatorKind::matmul, .m = 10, .n = 10, .k = 10, .flops = 2000};
  EXPECT_DOUBLE_EQ(rates.operator_s(matmul), 80);
  matmul.narrow = true;
  EXPECT_DOUBLE_EQ(rates.operator_s(matmul), 40);
  matmul.bytes = 500;  // at 10 a second
  EXPECT_DOUBLE_EQ(rates.operator_s(matmul), 50);
  EXPECT_DOUBLE_EQ(rates.operator_s({.kind = OperatorKind::attention, .flops = 200, .head_dim = 128}), 4);
  EXPECT_DOUBLE_EQ(rates.operator_s({.kind = OperatorKind::attention, .flops = 200, .head_dim = 32}), 8);
  EXPECT_DOUBLE_EQ(rates.operator_s({.kind = OperatorKind::memory, .bytes = 30}), 3);
  EXPECT_DOUBLE_EQ(rates.memory_s(MemoryUse::optimizer, 30), 3);
  EXPECT_EQ(rates.segment_factor({"experts", "moe", "forward", 512, 16}), 1);
  EXPECT_EQ(rates.fixed().overlap, 0.7);
  EXPECT_EQ(rates.fixed().launch_s, 3);
  EXPECT_EQ(rates.fixed().operation_s, 2);
  // 3/4 of 80 bytes through a package's port of 8 B/s, and through the 2 members' ports of 4: 60 / 8 each; 1/2 + 1 s.
  EXPECT_DOUBLE_EQ(rates.collective_s(CollectiveKind::all_gather, {4, 1}, 80), 7.5 + 0.5 + 1);
  EXPECT_DOUBLE_EQ(rates.collective_s(CollectiveKind::send, {2, 4}, 80), 8 + 40);  // to the next node
}

TEST(ProbedRates, PriceWorkOnCurves) {
  const ProbedRates rates(curves(), DType::float32, 1, 2);
  EXPECT_NEAR(rates.operator_s({.kind = OperatorKind::matmul, .m = 10, .n = 10, .k = 10, .flops = 2000}), 0.5e-6, 1e-18);
  EXPECT_NEAR(rates.operator_s({.kind = OperatorKind::matmul, .m = 5, .n = 10, .k = 10, .groups = 2, .flops = 2000}),
                   1e-6, 1e-18);
  EXPECT_NEAR(rates.operator_s({.kind = OperatorKind::attention, .flops = 2000}), 2e-6, 1e-18);
  EXPECT_NEAR(
      rates.operator_s({.kind = OperatorKind::attention, .pass = OperatorPass::input_gradient, .flops = 2000}), 4e-6, 1e-18);
  EXPECT_NEAR(rates.operator_s({.kind = OperatorKind::memory, .bytes = 8000}), 1e-6, 1e-18);
  EXPECT_NEAR(rates.memory_s(MemoryUse::optimizer, 8000), 8e-6, 1e-18);
  EXPECT_EQ(rates.fixed().operation_s, 1e-6);  // a CPU's own time
  EXPECT_EQ(rates.fixed().launch_s, 0);
  EXPECT_EQ(rates.fixed().peak_flops_per_s, 5e9);
  // A ring of two on a host: two messages of half; a gather is one of them. Four are on two hosts.
  EXPECT_NEAR(rates.collective_s(CollectiveKind::all_reduce, {2, 1}, 1000), 2 * (1e-6 + 0.5e-6), 1e-15);
  EXPECT_NEAR(rates.collective_s(CollectiveKind::all_gather, {2, 1}, 1000), 1e-6 + 0.5e-6, 1e-15);
  EXPECT_NEAR(rates.collective_s(CollectiveKind::all_reduce, {4, 1}, 1000), 6 * (10e-6 + 2.5e-6), 1e-15);
  EXPECT_NEAR(rates.collective_s(CollectiveKind::send, {2, 2}, 1000), 10e-6 + 10e-6, 1e-15);
}

TEST(Rates, SayWhereAGroupLies) {
  const SheetRates rates(four_levels());
  EXPECT_EQ(rates.node().devices, 4);
  EXPECT_EQ(rates.shape_of({4, 1}), NodeShape::one_node(4));
  EXPECT_EQ(rates.shape_of({4, 2}), NodeShape::even(4, 2));      // two of each node
  EXPECT_EQ(rates.shape_of({16, 1}), NodeShape::even(16, 4));    // a whole group
  EXPECT_EQ(rates.shape_of({32, 1}), NodeShape::even(32, 4, 4));  // two of them
  EXPECT_EQ(rates.shape_of({6, 1}), NodeShape::even(6, 3));      // as evenly as six go
  EXPECT_FALSE(rates.leaves_node({4, 1}));
  EXPECT_TRUE(rates.leaves_node({4, 2}));
  const ProbedRates alone(curves(), DType::float32, 1, 0);
  EXPECT_FALSE(alone.leaves_node({64, 1}));  // all on one host
  EXPECT_TRUE(ProbedRates(curves(), DType::float32, 1, 2).leaves_node({4, 1}));
}

TEST(SheetRates, MakeAFabricOfTheirLevels) {
  const SheetRates rates(four_levels());
  // 1 of 3 rows to others stays in the package (3 / 8 of its port, beside 2 / 4 of the node's): as one port of 6 B/s.
  const Fabric node = rates.fabric(NodeShape::one_node(4), 1);
  EXPECT_DOUBLE_EQ(node.node.bytes_per_s, 3 / (2 / 4.0));
  // A tree of four has two levels: one latency and one more over the three messages.
  EXPECT_DOUBLE_EQ(node.node.latency_s + 3 * node.node.message_s, 2);
  const Fabric far = rates.fabric(NodeShape::even(32, 4, 4), 1);
  EXPECT_EQ(far.cards_per_node, 4);
  EXPECT_EQ(far.group, (Wire{.latency_s = 8, .message_s = 1, .bytes_per_s = 2}));
  EXPECT_EQ(far.beyond.latency_s, 16);
  EXPECT_EQ(far.uplink_bytes_per_s, 16);  // of 16 devices, 1 B/s each
}

TEST(SheetRates, RefuseALinkThatNobodyKnows) {
  Machine m = four_levels();
  m.num_levels = 2;
  try {
    SheetRates(m).fabric(NodeShape::even(8, 4), 1);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(), "datasheet.level: has none outside of a node, which this group needs");
  }
  platform::PlatformSpec p = curves();
  p.links.pop_back();
  EXPECT_THROW(ProbedRates(p, DType::float32, 1, 2).collective_s(CollectiveKind::send, {2, 2}, 1), ConfigError);
  EXPECT_THROW(ProbedRates(p, DType::float32, 1, 2).fabric(NodeShape::even(4, 2), 1), ConfigError);
}

TEST(MakeRates, TakeCurvesBeforeADataSheet) {
  platform::PlatformSpec both = curves();
  both.name = "both";
  both.datasheet.peaks = {{"bfloat16", 1e12}};
  both.datasheet.memory_bytes_per_s = 1e12;
  both.datasheet.levels = {{.name = "node", .devices = 0, .bytes_per_s = 1e11}};
  EXPECT_EQ(make_rates(both, {}, {.dtype = DType::float32, .threads = 1})->kind(), Rates::Kind::probed);
  both.device.gemm.clear();
  const auto sheet = make_rates(both, {}, {.dtype = DType::bfloat16});
  EXPECT_EQ(sheet->kind(), Rates::Kind::sheet);
  EXPECT_EQ(sheet->origin(), "both's data sheet");
  EXPECT_THROW(make_rates(both, {}, {.dtype = DType::float64}), ConfigError);
  EXPECT_THROW(make_rates(both, {}, {.dtype = DType::float32}), ConfigError);  // no such peak
}

}  // namespace
}  // namespace trireme::sim
