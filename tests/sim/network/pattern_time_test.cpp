#include "sim/network/pattern_time.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/rng.h"
#include "plan/all_to_all/generators.h"
#include "plan/all_to_all/row_counts.h"
#include "sim/message_cost.h"
#include "sim/network/choose.h"

namespace trireme::sim {
namespace {

using plan::BlockTable;
using plan::NodeShape;
using plan::UniformRouting;

// On the node 1 ms, 10 us a message, 1 GB/s a member; off it 2 ms, 100 us a message, 0.1 GB/s a card.
Fabric fabric() {
  const Wire off{.latency_s = 2e-3, .message_s = 100e-6, .bytes_per_s = 1e8};
  return {.node = {.latency_s = 1e-3, .message_s = 10e-6, .bytes_per_s = 1e9}, .group = off, .beyond = off};
}

BlockTable equal(int size) {
  return BlockTable(size, std::vector<double>(static_cast<std::size_t>(size * size), 1));
}

double seconds(const char* name, const NodeShape& shape, const Fabric& f, double bytes) {
  return pattern_time(plan::make_pattern(name, shape), shape, f, equal(shape.size()), bytes).seconds;
}

TEST(PatternTime, OfOneNodeIsItsPort) {
  // 3 messages of 1 MB at 1 GB/s: 3 ms, and 1 ms.
  EXPECT_NEAR(seconds("flat", NodeShape::one_node(4), fabric(), 1e6), 4e-3, 1e-12);
  // 3 of 100 bytes: the member's own time counts, 3 sent and 3 received at 10 us a pair of ends.
  EXPECT_NEAR(seconds("flat", NodeShape::one_node(4), fabric(), 100), 1e-3 + 30e-6, 1e-12);
  // One after another: a latency for each; the last receive's latency is in them.
  EXPECT_NEAR(seconds("pairwise", NodeShape::one_node(4), fabric(), 1e6), 3e-3 + 3e-3, 1e-12);
}

TEST(PatternTime, OfManyNodesIsTheCard) {
  const NodeShape shape = NodeShape::even(8, 2);
  // 2 members x 6 blocks of 1 MB leave a node by one card: 12 MB at 0.1 GB/s, and 2 ms.
  EXPECT_NEAR(seconds("flat", shape, fabric(), 1e6), 0.122, 1e-12);
  Fabric two = fabric();
  two.cards_per_node = 2;
  EXPECT_NEAR(seconds("flat", shape, two, 1e6), 0.062, 1e-12);
  // HALO: remote the same 122 ms, then 1 message of 3 blocks on the node, 3 ms and 1 ms; local is hidden.
  EXPECT_NEAR(seconds("halo", shape, fabric(), 1e6), 0.122 + 4e-3, 1e-12);
  // Small: flat has 6 messages of 100 us and one of 10 us, HALO 3 of 100 us, then 1 ms and 10 us.
  EXPECT_NEAR(seconds("flat", shape, fabric(), 1), 2e-3 + 6 * 100e-6 + 10e-6, 1e-12);
  EXPECT_NEAR(seconds("halo", shape, fabric(), 1), 2e-3 + 3 * 100e-6 + 1e-3 + 10e-6, 1e-12);
}

TEST(PatternTime, UplinksLimitWhatLeavesAGroup) {
  Fabric f = fabric();
  f.uplink_bytes_per_s = 5e7;
  // Groups of 2 nodes of 1: each member sends 2 blocks of 1 MB beyond, a group 4 MB at 50 MB/s: 80 ms and 2 ms. The
  // cards have 3 MB at 100 MB/s, 30 ms.
  EXPECT_NEAR(seconds("flat", NodeShape::even(4, 1, 2), f, 1e6), 0.082, 1e-12);
}

TEST(PatternTime, OneNodeStandsForAllWhereTheyAreAlike) {
  for (const NodeShape& shape :
       {NodeShape::even(8, 2), NodeShape::even(12, 4), NodeShape::even(16, 2, 4), NodeShape::one_node(6)})
    for (const std::string& name : plan::pattern_names(shape))
      for (const double bytes : {10.0, 1e5}) {
        const UniformRouting counts(shape.size(), 64, 48, 4);
        const double all = pattern_time(plan::make_pattern(name, shape), shape, fabric(), counts, bytes).seconds;
        EXPECT_NEAR(balanced_time(name, shape, fabric(), counts, bytes).seconds / all, 1, 1e-12)
            << name << " on " << to_text(shape) << ", " << bytes;
      }
}

TEST(PatternTime, AMemberWithMoreRowsTakesLonger) {
  const NodeShape shape = NodeShape::even(4, 2);
  std::vector<double> rows(16, 1);
  rows[0 * 4 + 2] = 11;  // member 0 has ten more for member 2
  const double t = pattern_time(plan::make_pattern("flat", shape), shape, fabric(), BlockTable(4, rows), 1e6).seconds;
  // Node 0's card: 4 blocks and 10 more, 14 MB.
  EXPECT_NEAR(t, 0.142, 1e-12);
}

TEST(PatternTime, ThousandMembersAreQuick) {
  const NodeShape shape = NodeShape::even(1024, 8);
  const auto since = [](auto begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<double> rows(1024 * 1024);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<double>(random_bits(1, i) % 64);
  const BlockTable uneven(1024, std::move(rows));
  for (const std::string name : {"flat", "halo", "node_aware", "bruck"}) {
    auto begin = std::chrono::steady_clock::now();
    EXPECT_GT(balanced_time(name, shape, fabric(), UniformRouting(1024, 4096, 1024, 8), 1024).seconds, 0);
    RecordProperty(name + "_balanced_ms", std::to_string(since(begin) * 1e3));
    std::printf("%s balanced %.1f ms", name.c_str(), since(begin) * 1e3);
    begin = std::chrono::steady_clock::now();
    EXPECT_GT(pattern_time(plan::make_pattern(name, shape), shape, fabric(), uneven, 1024).seconds, 0);
    RecordProperty(name + "_uneven_ms", std::to_string(since(begin) * 1e3));
    std::printf(", uneven %.1f ms\n", since(begin) * 1e3);
  }
}

TEST(Choose, TakesTheFastestAndNamesTheSecond) {
  const NodeShape shape = NodeShape::even(32, 2);
  const auto at = [&](double bytes) {
    return choose_pattern({"flat", "halo"}, shape, fabric(), UniformRouting(32, 32, 32, 1), bytes);
  };
  // Small: 30 messages off the node against 15 and two latencies; large: the second hop costs.
  EXPECT_EQ(at(1).pick().pattern, "halo");
  EXPECT_EQ(at(1).runner_up()->pattern, "flat");
  EXPECT_EQ(at(1e6).pick().pattern, "flat");
  // 2 ms + 15 x 100 us, then 1 ms + 10 us; flat 2 ms + 30 x 100 us + 10 us.
  EXPECT_EQ(to_text(at(1e-9)), "halo (predicted 4.51 ms; runner-up flat, 5.01 ms)");
}

TEST(MessageCost, TakesWhatWasMeasuredTogetherFirst) {
  platform::PlatformSpec p;
  p.shared_links = {{.level = "host", .latency_s = 1e-3, .message_s = 10e-6, .bytes_per_s = 1e9},
                    {.level = "network", .latency_s = 2e-3, .message_s = 100e-6, .bytes_per_s = 1e8}};
  const platform::NetworkCurves curves(p);
  const plan::Mesh mesh{.pp = 1, .dp = 4, .ep = 4};
  const MessageCost cost(mesh, curves, 2);
  // Two nodes of two, blocks of 1 MB. Remote: 2 members x 2 blocks by a card, 40 ms and 2 ms; then one block on the node, 1 ms
  // and 1 ms.
  EXPECT_NEAR(cost.all_to_all(plan::make_pattern("halo", NodeShape::even(4, 2)), 0, 1e6).value, 0.044, 1e-12);
}

TEST(FabricOf, TakesWhatWasMeasuredTogetherFirst) {
  platform::PlatformSpec p;
  p.links = {{.level = "host", .latency_s = 1e-6, .bytes = {1, 1e6}, .bytes_per_s = {1e6, 1e9}}};
  EXPECT_EQ(fabric_of(p, NodeShape::one_node(4)).node, (Wire{.message_s = 1e-6, .bytes_per_s = 1e9}));
  try {
    fabric_of(p, NodeShape::even(4, 2));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("missing for level network"));
  }
  p.shared_links = {
      {.level = "network", .nodes = 2, .ranks_per_node = 2, .latency_s = 1e-3, .message_s = 1e-4, .bytes_per_s = 1e8},
      {.level = "network",
       .nodes = 16,
       .ranks_per_node = 2,
       .latency_s = 2e-3,
       .message_s = 1e-4,
       .bytes_per_s = 1e8,
       .cards = 2}};
  EXPECT_EQ(fabric_of(p, NodeShape::even(32, 2)).group.latency_s, 2e-3);
  EXPECT_EQ(fabric_of(p, NodeShape::even(32, 2)).cards_per_node, 2);
  EXPECT_EQ(fabric_of(p, NodeShape::even(4, 2)).group.latency_s, 1e-3);
}

}  // namespace
}  // namespace trireme::sim
