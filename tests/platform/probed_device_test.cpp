#include "platform/probed_device.h"

#include <gtest/gtest.h>

#include "platform/platform_file.h"

namespace trireme::platform {
namespace {

PlatformSpec host_of_two() {
  PlatformSpec p;
  p.device.memory_bytes = 8e9, p.device.launch_s = 4e-6;
  p.host.cores = 4, p.host.ranks = 2;
  p.device.peaks = {{.dtype = DType::float32, .flops_per_s = 100e9}};
  p.device.gemm = {{.m = {1, 2}, .n = {1, 2}, .k = {1, 2}, .flops_per_s = {20e9, 90e9}}};
  p.device.memory = {{.bytes = {1e3, 1e8}, .bytes_per_s = {50e9, 8e9}}};
  p.links = {{.level = "network", .latency_s = 30e-6, .bytes = {1e6}, .bytes_per_s = {1e8}},
             {.level = "host", .latency_s = 20e-6, .bytes = {1e3, 1e6}, .bytes_per_s = {1e9, 4e9}}};
  return p;
}

TEST(ProbedDevice, ARankHasItsShareOfTheHost) {
  const PlatformSpec p = with_datasheet(host_of_two());
  EXPECT_EQ(p.datasheet.peak("float32"), 50e9);
  EXPECT_EQ(p.datasheet.peak("bfloat16"), 50e9);   // not measured: as float32
  EXPECT_EQ(p.datasheet.memory_bytes_per_s, 8e9);  // of the size that no cache holds
  EXPECT_EQ(p.device.memory_bytes, 4e9);
  ASSERT_EQ(p.datasheet.levels.size(), 2u);
  EXPECT_EQ(p.datasheet.levels[0].devices, 2);
  EXPECT_EQ(p.datasheet.levels[0].bytes_per_s, 4e9);
  EXPECT_EQ(p.datasheet.levels[1].devices, 0);
  EXPECT_EQ(p.datasheet.levels[1].latency_s, 30e-6);
  EXPECT_EQ(with_datasheet(p), p);  // a data sheet stays as it is
}

TEST(ProbedDevice, CurvesAreTheirOwnEfficiency) {
  const DeviceEfficiency e = efficiency_of_curves(host_of_two());
  EXPECT_DOUBLE_EQ(e.gemm, 0.9);
  EXPECT_EQ(e.memory, 1);
  EXPECT_EQ(e.operation_s, 4e-6);
  const PlatformSpec alone = with_datasheet(load_platform(TRIREME_SOURCE_DIR "/configs/platforms/laptop.toml"));
  EXPECT_GT(alone.datasheet.peak("bfloat16"), 0);
  EXPECT_EQ(alone.datasheet.levels.back().devices, 0);
}

}  // namespace
}  // namespace trireme::platform
