#include "sim/rates/exchange_table.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/all_to_all/generators.h"
#include "plan/all_to_all/row_counts.h"
#include "platform/platform_file.h"
#include "sim/network/pattern_time.h"
#include "sim/rates/probed_rates.h"
#include "sim/rates/sheet_rates.h"

namespace trireme::sim {
namespace {

using plan::NodeShape;

// Nodes of 8 at 100 B/s a device, a network of 10 B/s a device, no latency.
Machine two_levels() {
  Machine m;
  m.num_levels = 2;
  m.levels[0] = {.devices = 8, .bytes_per_s = 100, .inside = true};
  m.levels[1] = {.devices = std::numeric_limits<double>::infinity(), .bytes_per_s = 10};
  return m;
}

const RouterShape deepseek{.top_k = 8, .experts = 256};

ExchangeTime exchange(const char* pattern, const GroupPlace& group, double bytes, const RouterShape& router = deepseek,
                      const Machine& machine = two_levels()) {
  return SheetRates(machine).exchange_table(pattern, group, router).at(bytes);
}

// The chance that none of 8 of `among` experts is one of `set`.
double miss(double among, double set) {
  double out = 1;
  for (int i = 0; i < 8; ++i) out *= (among - set - i) / (among - i);
  return out;
}

TEST(ExchangeTable, FlatKeepsBothKindsOfLinksBusy) {
  // 4 nodes of 8: three quarters of 3,200 bytes leave at 10 B/s, 7 / 32 stay on the node at 100.
  const ExchangeTime t = exchange("flat", {32, 1}, 3200);
  EXPECT_NEAR(t.outside_s, 240, 1e-9);
  EXPECT_NEAR(t.inside_s, 7, 1e-9);
  EXPECT_NEAR(t.alone_s, 240, 1e-9);
}

TEST(ExchangeTable, DeduplicationSendsARowOnceToANode) {
  // 100 rows of 8 bytes to 8 experts each are 6,400 bytes flat. A token wants a node's 64 of 256 experts, but for the
  // chance that all of its 8 lie elsewhere.
  const double hit = 1 - miss(256, 64);
  EXPECT_NEAR(exchange("dedup", {32, 1}, 6400).outside_s, 100 * 8 * 3 * hit / 10, 1e-9);
  // Streamed: the slower kind of links is the time.
  EXPECT_NEAR(exchange("dedup", {32, 1}, 6400).alone_s, 100 * 8 * 3 * hit / 10, 1e-9);
  // Each node a group, two of four chosen: half of the tokens, but for those with all 8 of 128 on the other one.
  const double limited = (1 - miss(128, 64)) / 2;
  EXPECT_NEAR(exchange("dedup", {32, 1}, 6400, {8, 256, 4, 2}).outside_s, 100 * 8 * 3 * limited / 10, 1e-9);
  // Groups of half a node, four of eight chosen: of a node's two none, one or both.
  const double none = 6.0 * 5 * 4 * 3 / (8.0 * 7 * 6 * 5), both = 6.0 * 5 / 2 / 70, one = 1 - none - both;
  const double halves = one * (1 - miss(128, 32)) + both * (1 - miss(128, 64));
  EXPECT_NEAR(exchange("dedup", {32, 1}, 6400, {8, 256, 8, 4}).outside_s, 100 * 8 * 3 * halves / 10, 1e-9);
}

TEST(ExchangeTable, AGatherTakesEveryTokenEverywhere) {
  // 800 bytes of tokens to 3 other nodes; on the node its own and three others' to 7 members.
  const ExchangeTime t = exchange("allgather", {32, 1}, 6400);
  EXPECT_NEAR(t.outside_s, 800 * 3 / 10.0, 1e-9);
  EXPECT_NEAR(t.inside_s, 800 * 4 * 7 / 100.0, 1e-9);
  EXPECT_NEAR(t.alone_s, 240, 1e-9);
  EXPECT_NEAR(exchange("allgather", {8, 1}, 6400).alone_s, 800 * 7 / 100.0, 1e-9);
}

// Pangu's volumes (a row of 15,360 bytes, 1,024 tokens, top 8, TP 8 x EP 4): flat 94.4 MB between nodes, the gather
// 47.2 MB and 110 MB inside, deduplicated 42.6 MB.
TEST(ExchangeTable, MovesPangusVolumes) {
  const double bytes = 1024.0 * 8 * 15360;
  const auto outside_MB = [&](const char* pattern) { return exchange(pattern, {32, 1}, bytes).outside_s * 10 / 1e6; };
  EXPECT_NEAR(outside_MB("flat"), 94.4, 0.05);
  EXPECT_NEAR(outside_MB("halo"), 94.4, 0.05);
  EXPECT_NEAR(outside_MB("allgather_a2a"), 47.2, 0.05);
  EXPECT_NEAR(outside_MB("dedup"), 42.6, 0.3);
  EXPECT_NEAR(exchange("allgather_a2a", {32, 1}, bytes).inside_s * 100 / 1e6, 110, 0.2);
}

TEST(ExchangeTable, StepsThatWaitForOneAnotherAddUp) {
  // Remote 240 s, then 7/8 of three quarters inside: 21 s; local (7 s) lies beside the first.
  const ExchangeTime halo = exchange("halo", {32, 1}, 3200);
  EXPECT_NEAR(halo.alone_s, 261, 1e-9);
  EXPECT_NEAR(halo.inside_s, 28, 1e-9);
  // 400 bytes of tokens to three nodes: 120 s; 7/8 of all rows inside: 28 s.
  const ExchangeTime gather = exchange("allgather_a2a", {32, 1}, 3200);
  EXPECT_NEAR(gather.outside_s, 120, 1e-9);
  EXPECT_NEAR(gather.inside_s, 28, 1e-9);
  EXPECT_NEAR(gather.alone_s, 148, 1e-9);
}

TEST(ExchangeTable, OnOneNodeThereIsNothingToCombine) {
  const RouterShape two{.top_k = 2, .experts = 64};
  for (const char* pattern : {"flat", "halo", "allgather_a2a"})
    EXPECT_NEAR(exchange(pattern, {8, 1}, 800, two).alone_s, 7, 1e-9) << pattern;
  EXPECT_EQ(exchange("flat", {8, 1}, 800, two).outside_s, 0);
  // One member a node: the same messages as flat, but for the gather's whole tokens: 400 bytes to 7 nodes.
  EXPECT_NEAR(exchange("halo", {8, 8}, 800, two).alone_s, exchange("flat", {8, 8}, 800, two).alone_s, 1e-9);
  EXPECT_NEAR(exchange("allgather_a2a", {8, 8}, 800, two).alone_s, 280, 1e-9);
  EXPECT_EQ(exchange("flat", {1, 1}, 800, two).alone_s, 0);
}

TEST(ExchangeTable, HaloPaysWhereMessagesAreManyAndSmall) {
  Machine m = two_levels();
  m.levels[1].latency_s = 1;
  const auto seconds = [&](const char* pattern, double bytes) {
    return exchange(pattern, {512, 1}, bytes, {.top_k = 8, .experts = 512}, m).alone_s;
  };
  // 504 messages off the node, eight at a time, or 63 of eight times the size; and the last one's latency.
  EXPECT_NEAR(seconds("flat", 1), 1 + 504 / 8.0, 0.2);
  EXPECT_NEAR(seconds("halo", 1), 1 + 63 / 8.0, 0.2);
  EXPECT_LT(seconds("flat", 1e6), seconds("halo", 1e6));
}

TEST(ExchangeTable, ANodeIsAllThatLiesInsideOfIt) {
  // Frontier's packages of two lie in nodes of eight.
  const SheetRates frontier(platform::load_platform(TRIREME_SOURCE_DIR "/configs/platforms/frontier.toml"), {}, {},
                            ComputeFormat::bfloat16);
  EXPECT_EQ(frontier.exchange_table("flat", {8, 1}, deepseek).at(1e9).outside_s, 0);
  // An eighth of the bytes to three other nodes at 12.5 GB/s x 0.75.
  EXPECT_NEAR(frontier.exchange_table("allgather_a2a", {32, 1}, deepseek).at(1e9).outside_s, 1e9 / 8 * 3 / (12.5e9 * 0.75),
              1e-3);
  // 64 members in each of four dragonfly groups: three quarters go through the taper of 0.57 between them.
  EXPECT_NEAR(frontier.exchange_table("flat", {256, 16}, deepseek).at(1e9).outside_s, 1e9 * 3 / 4 / (12.5e9 * 0.57 * 0.75),
              1e-6);
}

// Sizes that are no powers of two, for all patterns, against following the messages: close everywhere, and exact to a
// thousandth where bytes are what counts.
TEST(ExchangeTable, AgreesWithThePatternsAtEverySize) {
  const SheetRates dgx(platform::load_platform(TRIREME_SOURCE_DIR "/configs/platforms/dgx_h100.toml"), {}, {},
                       ComputeFormat::bfloat16);
  const GroupPlace group{32, 1};
  const NodeShape shape = dgx.shape_of(group);
  ASSERT_EQ(shape, NodeShape::even(32, 8));
  const plan::UniformRouting routing(32, 1, 256, 8);
  for (const std::string& pattern : plan::priced_pattern_names(shape)) {
    Fabric fabric = dgx.fabric(shape, 1);
    fabric.streamed = pattern == "dedup" || pattern == "allgather";
    for (const double bytes : {3e3, 1.1e5, 3e6, 1.7e8, 5.5e8}) {
      const PatternTime followed = balanced_time(pattern, shape, fabric, routing, bytes / 8);
      const ExchangeTime t = dgx.exchange_table(pattern, group, deepseek).at(bytes);
      EXPECT_NEAR(t.alone_s / followed.seconds, 1, bytes > 1e8 ? 1e-3 : 0.06) << pattern << " " << bytes;
      EXPECT_NEAR(t.outside_s / followed.outside_s, 1, 1e-9) << pattern;
      EXPECT_NEAR(t.inside_s / followed.inside_s, 1, 1e-9) << pattern;
    }
  }
}

TEST(ExchangeTable, TakesLinksThatWereMeasuredWhileAllTalk) {
  platform::PlatformSpec p;
  p.device.peaks = {{.flops_per_s = 1e9}};
  p.shared_links = {{.level = "host", .latency_s = 1e-3, .message_s = 10e-6, .bytes_per_s = 1e9},
                    {.level = "network", .latency_s = 2e-3, .message_s = 100e-6, .bytes_per_s = 1e8}};
  const ProbedRates rates(p, DType::float32, 1, 2);
  // Two nodes of two, top 1 of 4: blocks of 1 MB of 4. Remote: 2 members x 2 blocks by a card, 100 us, 2 ms and 40 ms; then
  // one block on the node, 10 us, 1 ms and 1 ms.
  const ExchangeTime halo = rates.exchange_table("halo", {4, 1}, {.top_k = 1, .experts = 4}).at(4e6);
  EXPECT_NEAR(halo.alone_s, 0.04411, 1e-6);
  EXPECT_NEAR(halo.outside_s, 0.04, 1e-9);
  p.shared_links.pop_back();
  EXPECT_THROW(ProbedRates(p, DType::float32, 1, 2).exchange_table("halo", {4, 1}, {.top_k = 1, .experts = 4}),
               ConfigError);
}

TEST(ExchangeTable, RefusesAPatternThatDoesNotFit) {
  EXPECT_THROW(exchange("halo3", {32, 1}, 1), ConfigError);  // no groups of nodes
  EXPECT_THROW(exchange("ring", {32, 1}, 1), ConfigError);
}

}  // namespace
}  // namespace trireme::sim
