#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "platform/device_curves.h"
#include "platform/network_curves.h"

namespace trireme::platform {
namespace {

Device device() {
  Device d;
  d.launch_s = 2e-6;
  d.peaks = {{.flops_per_s = 1e11}};
  d.gemm = {{.threads = 1, .m = {16, 1024}, .n = {64, 64}, .k = {64, 64}, .flops_per_s = {1e9, 4e9}}};
  d.memory = {{.use = MemoryUse::copy, .threads = 1, .bytes = {1000}, .bytes_per_s = {5e9}}};
  return d;
}

TEST(DeviceCurves, InterpolatesItsOwnThreads) {
  const DeviceCurves c(device(), DType::float32, 1);
  EXPECT_NEAR(c.gemm(128, 64, 64).value, 2e9, 1);  // half way in logs between 16 and 1024: sqrt(1 * 4)
  EXPECT_DOUBLE_EQ(c.launch().value, 2e-6);
  EXPECT_FALSE(c.measured());
}

TEST(DeviceCurves, ScalesWhatItDoesNotHoldAndSaysSo) {
  const DeviceCurves c(device(), DType::bfloat16, 4);
  EXPECT_NEAR(c.gemm(16, 64, 64).value, 1e9 * 4 * 2, 1);    // four times the threads, half the bytes
  EXPECT_NEAR(c.memory(MemoryUse::copy, 1000).value, 5e9, 1);  // more threads don't widen the memory's way
  EXPECT_THAT(c.notes(), testing::Contains(testing::HasSubstr("4 threads")));
  EXPECT_THAT(c.notes(), testing::Contains(testing::HasSubstr("bfloat16")));
}

TEST(DeviceCurves, FallsBackOnGemmForGroups) {
  const DeviceCurves c(device(), DType::float32, 1);
  EXPECT_EQ(c.grouped_gemm(16, 64, 64, 8).value, c.gemm(16, 64, 64).value);
}

TEST(DeviceCurves, TakesSegmentFactorsOfTheNearestThreads) {
  Device d = device();
  for (int threads : {1, 8})
    d.segments.push_back({.threads = threads, .segment = {"experts"}, .layer = {"moe"}, .pass = {"forward"}, .factor = {1.0 + threads}});
  EXPECT_EQ(DeviceCurves(d, DType::float32, 2).segment_factor("experts", "moe", "forward"), 2);
  EXPECT_EQ(DeviceCurves(d, DType::float32, 16).segment_factor("experts", "moe", "forward"), 9);
  EXPECT_EQ(DeviceCurves(d, DType::float32, 2).segment_factor("experts", "moe", "backward"), 1);   // none was measured
  // Files of before measured the shared expert within the experts: the sum of both stays what it was.
  EXPECT_EQ(DeviceCurves(d, DType::float32, 2).segment_factor("shared", "moe", "forward"), 2);
  EXPECT_EQ(DeviceCurves(d, DType::bfloat16, 2).segment_factor("experts", "moe", "forward"), 1);
}

PlatformSpec network() {
  PlatformSpec p;
  p.links = {{.level = "host", .latency_s = 1e-4, .bytes = {1000}, .bytes_per_s = {1e9}}};
  return p;
}

TEST(NetworkCurves, AddsLatencyToBytesOverBandwidth) {
  const PlatformSpec p = network();
  EXPECT_NEAR(NetworkCurves(p).message(Level::host, 1e6).value, 1e-4 + 1e-3, 1e-12);
  EXPECT_NEAR(NetworkCurves(p).message(Level::host, 0).value, 1e-4, 1e-12);
}

TEST(NetworkCurves, AllReduceIsARing) {
  const PlatformSpec p = network();
  // 4 ranks, 4 MB: 2 * 3 messages of 1 MB.
  EXPECT_NEAR(NetworkCurves(p).all_reduce(Level::host, 4, 4e6).value, 6 * 1.1e-3, 1e-12);
  EXPECT_EQ(NetworkCurves(p).all_reduce(Level::host, 1, 4e6).value, 0);
}

TEST(NetworkCurves, AllToAllSendsToEveryOther) {
  const PlatformSpec p = network();
  EXPECT_NEAR(NetworkCurves(p).all_to_all(Level::host, 4, 3e6).value, 3 * 1.1e-3, 1e-12);
}

TEST(NetworkCurves, MeasuredTablesComeFirst) {
  PlatformSpec p = network();
  p.collectives = {{.kind = Collective::all_to_all, .ranks = 2, .source = Source::measured, .bytes = {1e4, 1e6},
                    .seconds = {1e-3, 4e-3}},
                   {.kind = Collective::all_reduce, .ranks = 2, .bytes = {1e6}, .seconds = {2e-3}}};
  const NetworkCurves n(p);
  EXPECT_NEAR(n.all_to_all(Level::host, 2, 5e4).value, 2e-3, 1e-9);  // 1e5 in all: half way, sqrt(1e-3 * 4e-3)
  EXPECT_NEAR(n.all_to_all(Level::host, 2, 1).value, 1e-3, 1e-12);   // latency below the smallest
  EXPECT_NEAR(n.all_to_all(Level::host, 2, 1e6).value, 8e-3, 1e-9);  // twice the largest: by bytes
  // Measured on 2 ranks (a share of 1/2), asked for 4 (3/4).
  EXPECT_NEAR(n.all_reduce(Level::host, 4, 1e6).value, 3e-3, 1e-9);
  EXPECT_TRUE(n.measured(Collective::all_to_all, Level::host, 2));
  EXPECT_FALSE(n.measured(Collective::all_reduce, Level::host, 2));
}

TEST(NetworkCurves, NamesTheLevelThatIsMissing) {
  const PlatformSpec p = network();
  EXPECT_THROW(NetworkCurves(p).message(Level::network, 1), ConfigError);
}

}  // namespace
}  // namespace trireme::platform
