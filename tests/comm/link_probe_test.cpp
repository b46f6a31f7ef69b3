#include "comm/link_probe.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/rank_threads.h"

namespace trireme::comm {
namespace {

using testing::run_mesh;

TEST(LinkProbe, CurvesBecomeLinks) {
  // 1 ms of latency; 1 kB in 2 ms more is 0.5 MB/s. A large message that seems no longer than the latency counts as a
  // tenth of its time.
  const platform::Link link = link_of("network", {{.bytes = 4, .median_s = 1e-3},
                                                  {.bytes = 1000, .median_s = 3e-3, .p99_s = 4e-3, .max_s = 5e-3},
                                                  {.bytes = 2000, .median_s = 1e-3}});
  EXPECT_EQ(link.level, "network");
  EXPECT_EQ(link.source, platform::Source::measured);
  EXPECT_EQ(link.latency_s, 1e-3);
  EXPECT_EQ(link.bytes, (std::vector<double>{1000, 2000}));
  EXPECT_DOUBLE_EQ(link.bytes_per_s[0], 5e5);
  EXPECT_DOUBLE_EQ(link.bytes_per_s[1], 2e7);
  EXPECT_EQ(link.p99_s[0], 4e-3);
  EXPECT_EQ(link.max_s[0], 5e-3);
}

TEST(LinkProbe, MedianAndNearestRankPercentile) {
  // 1 .. 200 s: the median is 100.5; the nearest rank of 99 % is ceil(198) = the 198th; the largest is 200.
  std::vector<double> samples;
  for (int i = 200; i >= 1; --i) samples.push_back(i);
  EXPECT_EQ(summarise(8, samples), (LinkPoint{8, 100.5, 198, 200, 200}));
  EXPECT_EQ(summarise(4, {3, 1, 2}), (LinkPoint{4, 2, 3, 3, 3}));
  EXPECT_EQ(summarise(4, {7}), (LinkPoint{4, 7, 7, 7, 1}));
}

class LinkProbeOfSize : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LinkProbeOfSize, ::testing::Values(1, 2, 3, 5), ::testing::PrintToStringParamName());

TEST_P(LinkProbeOfSize, EveryMemberGetsTheSameCurves) {
  const int size = GetParam();
  std::vector<std::vector<LinkCurve>> results(static_cast<std::size_t>(size));
  run_mesh({.dp = size}, [&](int rank, Communicator& communicator) {
    results[static_cast<std::size_t>(rank)] =
        probe_links(communicator.group(Axis::dp), {.bytes = {65536, 4}, .budget_s = 0.2, .max_samples = 5});
  });
  // Pairs: 1 of two, 3 of three, and of five member 0 with the 4 others; then the two collectives.
  const std::map<int, std::size_t> pairs{{1, 0}, {2, 1}, {3, 3}, {5, 4}};
  const auto& curves = results[0];
  ASSERT_EQ(curves.size(), size == 1 ? 0 : pairs.at(size) + 2);
  for (const auto& other : results) EXPECT_EQ(other, curves);
  for (const LinkCurve& curve : curves) {
    ASSERT_EQ(curve.points.size(), 2u);
    const bool message = curve.operation == LinkOperation::message;
    EXPECT_EQ(curve.members.size(), message ? 2u : static_cast<std::size_t>(size));
    for (const LinkPoint& point : curve.points) {
      EXPECT_GT(point.median_s, 0);
      EXPECT_GE(point.p99_s, point.median_s);
      EXPECT_GE(point.max_s, point.p99_s);
      EXPECT_GE(point.samples, 3);
      EXPECT_LE(point.samples, 5);
    }
    // An all-to-all sends at least one float to every member; a message or a tensor is as large as asked for.
    EXPECT_EQ(curve.points[0].bytes, curve.operation == LinkOperation::all_to_all ? 4.0 * size : 4.0);
    EXPECT_GE(curve.points[1].bytes, 65536);
  }
  if (size > 1) {
    EXPECT_EQ(curves[0].members, (std::vector<int>{0, 1}));
    const nlohmann::json j = curves;
    EXPECT_EQ(j.get<std::vector<LinkCurve>>(), curves);
  }
}

TEST(LinkProbe, ChosenPairsOnly) {
  run_mesh({.dp = 3}, [&](int, Communicator& communicator) {
    const auto curves = probe_links(communicator.group(Axis::dp),
                                    {.bytes = {4}, .budget_s = 0.1, .max_samples = 3, .pairs = {{2, 1}}});
    EXPECT_EQ(curves.size(), 3u);
    EXPECT_EQ(curves[0].members, (std::vector<int>{2, 1}));
  });
}

}  // namespace
}  // namespace trireme::comm
