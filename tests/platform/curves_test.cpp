#include <cmath>

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
  const auto factor = [&](DType dtype, int threads, const char* pass, const char* segment = "experts") {
    return DeviceCurves(d, dtype, threads).segment_factor(segment, "moe", pass, 512, 16);
  };
  EXPECT_DOUBLE_EQ(factor(DType::float32, 2, "forward"), 2);
  EXPECT_DOUBLE_EQ(factor(DType::float32, 16, "forward"), 9);
  EXPECT_EQ(factor(DType::float32, 2, "backward"), 1);  // none was measured
  // Files of before measured the shared expert within the experts: the sum of both stays what it was.
  EXPECT_DOUBLE_EQ(factor(DType::float32, 2, "forward", "shared"), 2);
  EXPECT_EQ(factor(DType::bfloat16, 2, "forward"), 1);
  EXPECT_THAT(DeviceCurves(d, DType::float32, 2).notes(), testing::Contains(testing::HasSubstr("none measured with 2 threads, factors of 1")));
  EXPECT_THAT(DeviceCurves(d, DType::float32, 8).notes(), testing::Not(testing::Contains(testing::HasSubstr("segments"))));
}

TEST(DeviceCurves, HasTheCurvesOfItsThreads) {
  Device d = device();
  d.gemm.push_back({.threads = 2, .m = {16}, .n = {64}, .k = {64}, .flops_per_s = {1.7e9}});
  d.memory.push_back({.use = MemoryUse::copy, .threads = 2, .bytes = {1000}, .bytes_per_s = {6e9}});
  EXPECT_NEAR(DeviceCurves(d, DType::float32, 1).gemm(16, 64, 64).value, 1e9, 1);
  EXPECT_NEAR(DeviceCurves(d, DType::float32, 2).gemm(16, 64, 64).value, 1.7e9, 1);
  EXPECT_NEAR(DeviceCurves(d, DType::float32, 2).memory(MemoryUse::copy, 1000).value, 6e9, 1);
  EXPECT_THAT(DeviceCurves(d, DType::float32, 2).notes(), testing::Not(testing::Contains(testing::HasSubstr("no curve for 2 threads"))));
}

TEST(DeviceCurves, InterpolatesSegmentFactorsBetweenSizes) {
  Device d = device();
  d.segments = {{.threads = 1, .segment = {"experts", "experts", "experts", "experts"}, .layer = {"moe", "moe", "moe", "moe"},
                 .pass = {"forward", "forward", "forward", "forward"}, .tokens = {256, 1024, 256, 1024}, .experts = {4, 4, 16, 16},
                 .factor = {1, 4, 2, 8}}};
  const DeviceCurves c(d, DType::float32, 1);
  const auto factor = [&](double tokens, double experts) { return c.segment_factor("experts", "moe", "forward", tokens, experts); };
  EXPECT_NEAR(factor(512, 4), 2, 1e-12);                 // half way in logs between 1 and 4
  EXPECT_NEAR(factor(512, 8), 2 * std::sqrt(2), 1e-12);  // and between 2 and 4
  EXPECT_NEAR(factor(4096, 16), 8, 1e-12);               // beyond the sizes: the last one's
  EXPECT_NEAR(factor(1, 1), 1, 1e-12);
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
