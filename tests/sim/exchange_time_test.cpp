#include "sim/estimate/exchange_time.h"

#include <limits>

#include <gtest/gtest.h>

#include "platform/platform_file.h"
#include "sim/network/pattern_time.h"

namespace trireme::sim {
namespace {

// Nodes of 8 at 100 B/s a device, a network of 10 B/s a device, no latency.
Machine two_levels() {
  Machine m;
  m.num_levels = 2;
  m.levels[0] = {.devices = 8, .latency_s = 0, .bytes_per_s = 100, .inside = true};
  m.levels[1] = {.devices = std::numeric_limits<double>::infinity(), .latency_s = 0, .bytes_per_s = 10};
  return m;
}

double alone(const char* pattern, const GroupPlace& group, const Rows& rows) {
  return exchange_time(pattern, two_levels(), group, rows).alone_s;
}

TEST(ExchangeTime, FlatKeepsBothKindsOfLinksBusy) {
  // 4 nodes of 8: three quarters of 3,200 bytes leave at 10 B/s, 7 / 32 stay on the node at 100.
  const ExchangeTime t = exchange_time("flat", two_levels(), {32, 1}, {.bytes = 3200, .top_k = 8});
  EXPECT_DOUBLE_EQ(t.outside_s, 240);
  EXPECT_DOUBLE_EQ(t.inside_s, 7);
  EXPECT_DOUBLE_EQ(t.alone_s, 240);
}

TEST(ExchangeTime, DeduplicationSendsARowOnceToANode) {
  // 4 nodes, 8 choices: 4 (1 - (3/4)^8) = 3.5995 nodes are visited.
  EXPECT_NEAR(expected_units(4, 8), 3.5995, 1e-4);
  // 100 rows of 8 bytes to 8 experts each are 6,400 bytes flat. Once a node: 100 x 8 x 3.5995 x 3/4 / 10 B/s.
  EXPECT_NEAR(alone("dedup", {32, 1}, {6400, 8, 256, 8}), 100 * 8 * 3.5995 * 0.75 / 10, 0.01);
  // Routing limited to two nodes sends at most there.
  EXPECT_NEAR(alone("dedup", {32, 1}, {6400, 8, 256, 2}), 100 * 8 * 2 * 0.75 / 10, 1e-9);
}

// Pangu's volumes (a row of 15,360 bytes, 1,024 tokens, top 8, TP 8 x EP 4): flat 94.4 MB between nodes, the gather
// 47.2 MB and 110 MB inside, deduplicated 42.6 MB.
TEST(ExchangeTime, MovesPangusVolumes) {
  const Rows rows{.bytes = 1024.0 * 8 * 15360, .top_k = 8};
  const auto outside_MB = [&](const char* pattern) {
    return exchange_time(pattern, two_levels(), {32, 1}, rows).outside_s * 10 / 1e6;
  };
  EXPECT_NEAR(outside_MB("flat"), 94.4, 0.05);
  EXPECT_NEAR(outside_MB("halo"), 94.4, 0.05);
  EXPECT_NEAR(outside_MB("allgather_a2a"), 47.2, 0.05);
  EXPECT_NEAR(outside_MB("dedup"), 42.6, 0.2);
  EXPECT_NEAR(exchange_time("allgather_a2a", two_levels(), {32, 1}, rows).inside_s * 100 / 1e6, 110, 0.2);
}

TEST(ExchangeTime, StepsThatWaitForOneAnotherAddUp) {
  const Rows rows{.bytes = 3200, .top_k = 8};
  // Remote 240 s, then 7/8 of three quarters inside: 21 s; local (7 s) lies beside the first.
  const ExchangeTime halo = exchange_time("halo", two_levels(), {32, 1}, rows);
  EXPECT_DOUBLE_EQ(halo.alone_s, 261);
  EXPECT_DOUBLE_EQ(halo.inside_s, 28);
  // 400 bytes of tokens to three nodes: 120 s; 7/8 of all rows inside: 28 s.
  const ExchangeTime gather = exchange_time("allgather_a2a", two_levels(), {32, 1}, rows);
  EXPECT_DOUBLE_EQ(gather.outside_s, 120);
  EXPECT_DOUBLE_EQ(gather.inside_s, 28);
  EXPECT_DOUBLE_EQ(gather.alone_s, 148);
}

TEST(ExchangeTime, OnOneNodeThereIsNothingToCombine) {
  const Rows rows{.bytes = 800, .top_k = 2};
  for (const char* pattern : {"halo", "allgather_a2a"}) EXPECT_DOUBLE_EQ(alone(pattern, {8, 1}, rows), 7) << pattern;
  // One member a node: the same messages as flat, but for the gather's whole tokens: 400 bytes to 7 nodes.
  EXPECT_DOUBLE_EQ(alone("halo", {8, 8}, rows), alone("flat", {8, 8}, rows));
  EXPECT_DOUBLE_EQ(alone("allgather_a2a", {8, 8}, rows), 280);
}

TEST(ExchangeTime, HaloPaysWhereMessagesAreManyAndSmall) {
  Machine m = two_levels();
  m.levels[1].latency_s = 1;
  const auto seconds = [&](const char* pattern, double bytes) {
    return exchange_time(pattern, m, {512, 1}, {.bytes = bytes, .top_k = 8}).alone_s;
  };
  // 511 messages, or 63 of eight times the size.
  EXPECT_NEAR(seconds("flat", 1), 511 / 8.0, 0.2);
  EXPECT_NEAR(seconds("halo", 1), 63 / 8.0, 0.2);
  EXPECT_LT(seconds("flat", 1e6), seconds("halo", 1e6));
}

TEST(ExchangeTime, ANodeIsAllThatLiesInsideOfIt) {
  // Frontier's packages of two lie in nodes of eight.
  const Machine m = make_machine(platform::load_platform(TRIREME_SOURCE_DIR "/configs/platforms/frontier.toml"), {}, {},
                                 ComputeFormat::bfloat16);
  const Rows rows{.bytes = 1e9, .top_k = 8};
  EXPECT_EQ(exchange_time("flat", m, {8, 1}, rows).outside_s, 0);
  // A quarter of the tokens' bytes to three other nodes at 12.5 GB/s x 0.75.
  EXPECT_NEAR(exchange_time("allgather_a2a", m, {32, 1}, rows).outside_s, 1e9 / 8 * 3 / (12.5e9 * 0.75), 1e-3);
}

// The patterns themselves on the network that plans are priced on: the same bytes over the same links, so that with no
// latency flat, HALO and the gather agree. (There the phases of a gather share a member's time, here they do not.)
TEST(ExchangeTime, AgreesWithThePatternsOnANetwork) {
  const plan::NodeShape shape = plan::NodeShape::even(32, 8);
  const Fabric fabric{
      .node = {.bytes_per_s = 100}, .group = {.bytes_per_s = 10}, .beyond = {.bytes_per_s = 10}, .cards_per_node = 8};
  const plan::UniformRouting counts(32, 100, 256, 8);  // 100 tokens a member, rows of 8 bytes
  const Rows rows{6400, 8, 256, 8};
  for (const char* pattern : {"flat", "halo", "allgather_a2a"}) {
    const double network = balanced_time(pattern, shape, fabric, counts, 8).seconds;
    EXPECT_NEAR(alone(pattern, {32, 1}, rows) / network, 1, 0.08) << pattern;
  }
  // There the pattern's second step waits for the whole first one; here a kernel hands rows on as they arrive.
  const ExchangeTime dedup = exchange_time("dedup", two_levels(), {32, 1}, rows);
  EXPECT_NEAR((dedup.outside_s + dedup.inside_s) / balanced_time("dedup", shape, fabric, counts, 8).seconds, 1, 0.08);
}

}  // namespace
}  // namespace trireme::sim
