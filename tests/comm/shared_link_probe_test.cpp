#include "comm/shared_link_probe.h"

#include <gtest/gtest.h>

#include "comm/pattern_race.h"
#include "plan/all_to_all/generators.h"
#include "plan/all_to_all/traffic.h"
#include "support/rank_threads.h"

namespace trireme::comm {
namespace {

using plan::NodeShape;

TEST(SharedLinkFit, FindsTheLineThatMadeTheSamples) {
  // 100 us + max(20 us a message, bytes at 50 MB/s).
  std::vector<SharedSample> made;
  for (const int messages : {1, 3, 12})
    for (const double bytes : {64.0, 1024.0, 8192.0, 65536.0})
      made.push_back({.level = "network",
                      .messages = messages,
                      .bytes = bytes,
                      .busiest_bytes = 2 * messages * bytes,
                      .median_s = 100e-6 + std::max(20e-6 * messages, 2 * messages * bytes / 50e6)});
  std::vector<SharedSample*> samples;
  for (SharedSample& s : made) samples.push_back(&s);
  const platform::SharedLink link = fit_shared_link(samples);
  EXPECT_NEAR(link.latency_s, 100e-6, 1e-9);
  EXPECT_NEAR(link.message_s, 20e-6, 1e-9);
  EXPECT_NEAR(link.bytes_per_s, 50e6, 0.5e6);  // a grid of 1 %
  EXPECT_LT(link.residual, 0.01);
  EXPECT_NEAR(made.back().fitted_s / made.back().median_s, 1, 0.02);
}

TEST(SharedLinkFit, OneNumberOfMessagesIsAllLatency) {
  SharedSample one{.level = "host", .messages = 1, .bytes = 64, .busiest_bytes = 64, .median_s = 1e-3};
  std::vector<SharedSample*> samples{&one};
  const platform::SharedLink link = fit_shared_link(samples);
  EXPECT_DOUBLE_EQ(link.latency_s, 1e-3);
  EXPECT_EQ(link.message_s, 0);
}

// On a busy host large messages may take no longer than small ones: no sign of endless bandwidth.
TEST(SharedLinkFit, AssumesNoRateThatWasNotSeen) {
  SharedSample small{.level = "host", .messages = 3, .bytes = 64, .busiest_bytes = 192, .median_s = 5e-3},
      large{.level = "host", .messages = 3, .bytes = 65536, .busiest_bytes = 200e3, .median_s = 4e-3};
  std::vector<SharedSample*> samples{&small, &large};
  EXPECT_DOUBLE_EQ(fit_shared_link(samples).bytes_per_s, 50e6);  // 200 kB in 4 ms
}

TEST(SharedLinkFit, FindsWhatABoundCosts) {
  // 400 us of latency, 20 us a message; a bound costs 30 us a message and 90 us a turn after the first.
  platform::SharedLink link{.latency_s = 400e-6, .message_s = 20e-6};
  SharedSample one{.messages = 7, .in_flight = 1, .median_s = 400e-6 + 7 * 50e-6 + 6 * 90e-6},
      four{.messages = 8, .in_flight = 4, .median_s = 400e-6 + 8 * 50e-6 + 90e-6};
  std::vector<SharedSample*> samples{&one, &four}, single{&one}, none;
  fit_turns(samples, link);
  EXPECT_NEAR(link.wake_s, 30e-6, 1e-12);
  EXPECT_NEAR(link.turn_s, 90e-6, 1e-12);
  EXPECT_NEAR(one.fitted_s / one.median_s, 1, 1e-9);
  EXPECT_NEAR(four.fitted_s / four.median_s, 1, 1e-9);
  // One kind of burst: 6 turns of 90 us and 7 times 30 us are 125 us a turn.
  fit_turns(single, link);
  EXPECT_EQ(link.wake_s, 0);
  EXPECT_NEAR(link.turn_s, 125e-6, 1e-12);
  fit_turns(none, link);
  EXPECT_EQ(link.turn_s, -1);
  one.median_s = four.median_s = 1e-6;  // faster than without a bound: it costs nothing
  fit_turns(samples, link);
  EXPECT_EQ(link.wake_s, 0);
  EXPECT_EQ(link.turn_s, 0);
}

TEST(SharedLinkProbe, MeasuresTheLevelsThatThereAre) {
  testing::run_mesh({.dp = 4, .ep = 4}, [](int rank, Communicator& communicator) {
    SharedLinkOptions quick{.bytes = {64, 4096}, .samples = 2, .batch_s = 0};
    const SharedLinks two = probe_shared_links(communicator.group(Axis::ep), NodeShape::even(4, 2), quick);
    ASSERT_EQ(two.links.size(), 2u);
    EXPECT_EQ(two.links[0].level, "host");
    EXPECT_EQ(two.links[1].level, "network");
    EXPECT_EQ(two.links[1].nodes, 2);
    EXPECT_EQ(two.links[1].ranks_per_node, 2);
    EXPECT_GT(two.links[0].copy_bytes_per_s, 0);
    for (const SharedSample& s : two.samples) EXPECT_GT(s.median_s, 0);
    EXPECT_EQ(probe_shared_links(communicator.group(Axis::ep), NodeShape::one_node(4), quick).links.size(), 1u);
  });
}

TEST(PatternRace, RacesThemOnTheSameTokens) {
  const NodeShape shape = NodeShape::even(4, 2);
  RaceOptions options{.patterns = plan::pattern_names(shape), .bytes_per_pair = {16, 512}, .samples = 2, .batch_s = 0};
  testing::run_mesh({.dp = 4, .ep = 4}, [&](int rank, Communicator& communicator) {
    const auto points = race_patterns(communicator.group(Axis::ep), shape, options);
    ASSERT_EQ(points.size(), 2 * options.patterns.size());
    EXPECT_EQ(points[0].pattern, "flat");
    EXPECT_EQ(points[0].bytes_per_pair, 16);
    for (const RacePoint& p : points) EXPECT_GT(p.median_s, 0);
  });
  // 512 bytes a pair in 8 rows: 4 tokens x 8 slots over 4 members, each row of 64 bytes.
  const RacedTokens raced = raced_tokens(4, 512, options);
  EXPECT_EQ(raced.tokens, 4);
  EXPECT_EQ(raced.row_bytes, 64);
  double rows = 0;
  const plan::TokenRoutes routes = routes_of(raced, shape, options);
  for (int s = 0; s < 4; ++s) rows += routes.each({.first = s}, {.first = 0, .count = 4});
  EXPECT_EQ(rows * raced.row_bytes, 512 * 4 * 4);
}

}  // namespace
}  // namespace trireme::comm
