#include "platform/stack_profile.h"

#include <string>

#include <gtest/gtest.h>

#include "base/errors.h"

namespace trireme::platform {
namespace {

TEST(StackProfile, GoesThroughAFile) {
  StackProfile p{.name = "mine",
                 .devices = {{.device = "H100-SXM5-80GB", .values = {.gemm = 0.5, .operation_s = 2e-6}}},
                 .stacks = {{.name = "framework_1.2",
                             .values = {.slow_down = 1.25, .launch_s = 1e-5},
                             .rows = 7,
                             .median_error = 0.0625,
                             .held_out_error = 0.125}}};
  const StackProfile again = parse_stack_profile(to_toml(p), "mine.toml");
  EXPECT_EQ(to_toml(again), to_toml(p));
  // Microseconds in the file, seconds here: equal but for rounding.
  EXPECT_NEAR(again.device("H100-SXM5-80GB").operation_s, 2e-6, 1e-15);
  EXPECT_EQ(again.stack("framework_1.2").slow_down, 1.25);
  EXPECT_EQ(again.stacks[0].rows, 7);
}

TEST(StackProfile, FamiliesLendWhatNobodyMeasured) {
  const StackProfile p{
      .devices = {{.device = "hopper", .values = {.gemm = 0.6}}, {.device = "H100-SXM5-80GB", .values = {.gemm = 0.5}}},
      .stacks = {{.name = "framework", .values = {.overlap = 0.25}},
                 {.name = "framework_1.2", .values = {.overlap = 0.5}}}};
  bool known = false;
  EXPECT_EQ(p.device("H100-SXM5-80GB", &known).gemm, 0.5);
  EXPECT_TRUE(known);
  EXPECT_EQ(p.device("GH200-96GB", &known).gemm, 0.6);
  EXPECT_FALSE(known);
  EXPECT_EQ(p.device("abacus").gemm, DeviceEfficiency{}.gemm);
  EXPECT_EQ(p.stack("framework_1.2").overlap, 0.5);
  EXPECT_EQ(p.stack("framework_1.3").overlap, 0.25);
  EXPECT_EQ(p.stack("").overlap, StackBehaviour{}.overlap);
}

TEST(StackProfile, RefusesWhatADataSheetCannotHold) {
  EXPECT_THROW(parse_stack_profile("name = 'x'\n[[device]]\nname = 'd'\ngemm = 1.5\n", "x.toml"), ConfigError);
  EXPECT_THROW(parse_stack_profile("name = 'x'\n[[device]]\nname = 'd'\ngem = 0.5\n", "x.toml"), ConfigError);
  EXPECT_THROW(parse_stack_profile("name = 'x'\n[[stack]]\nname = 's'\noverlap = -1\n", "x.toml"), ConfigError);
}

}  // namespace
}  // namespace trireme::platform
