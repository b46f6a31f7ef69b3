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
#include "sim/rates/probed_rates.h"

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
  // The first of 3 messages of 1 MB is posted after 10 us, there is 1 ms later, and the port has 3 ms to carry.
  EXPECT_NEAR(seconds("flat", NodeShape::one_node(4), fabric(), 1e6), 10e-6 + 1e-3 + 3e-3, 1e-12);
  // 3 of 100 bytes: the last is posted after 30 us of the member's own time, 3 sent and 3 received, and takes 0.1 us.
  EXPECT_NEAR(seconds("flat", NodeShape::one_node(4), fabric(), 100), 30e-6 + 1e-3 + 0.1e-6, 1e-12);
  // One after another: own time, latency and transfer of each.
  EXPECT_NEAR(seconds("pairwise", NodeShape::one_node(4), fabric(), 1e6), 3 * (10e-6 + 1e-3 + 1e-3), 1e-12);
}

TEST(PatternTime, OfBoundedStepsIsThatOfTheirRounds) {
  // 8 messages, 2 at a time, the port's whole time for a pair 2 ms: posted after 10 and 20 us. The first has the port
  // alone for 10 us and then shares it: it ends when the port has done 2 ms less 10 us of work since 1.01 ms, the
  // second at 3.01 ms. With the first's end a third is posted 10 us later, and its latency is over long after 3.01 ms.
  // So steps 1, 3, 5, 7 begin every 1 ms + 10 us + 1.99 ms; behind the last, 7, comes 8, 10 us later, which ends at
  // begin
  // + 10 us + 1 ms + 2 ms.
  const NodeShape shape = NodeShape::one_node(9);
  const double t =
      pattern_time(plan::make_pattern("scattered", shape, {.in_flight = 2}), shape, fabric(), equal(9), 1e6).seconds;
  EXPECT_NEAR(t, 3 * (10e-6 + 1e-3 + 1.99e-3) + 10e-6 + 1e-3 + 2e-3, 1e-12);
}

TEST(PatternTime, OfManyNodesIsTheCard) {
  const NodeShape shape = NodeShape::even(8, 2);
  // Step 1: member 1 sends off the node, 50 us of its own, and receives on it, 5 us. From then, and 2 ms, the card has
  // 2 members x 6 blocks of 1 MB at 0.1 GB/s to carry.
  EXPECT_NEAR(seconds("flat", shape, fabric(), 1e6), 55e-6 + 2e-3 + 0.12, 1e-12);
  Fabric two = fabric();
  two.cards_per_node = 2;
  // Member 0's own card: its first message off the node is that of step 2, 100 us later.
  EXPECT_NEAR(seconds("flat", shape, two, 1e6), 155e-6 + 2e-3 + 0.06, 1e-12);
  // HALO: remote 3 messages of 2 blocks, posted before local ones, from 100 us and 2 ms on 120 ms; then 1 message of 3
  // blocks on the node, 10 us, 1 ms and 3 ms; local is hidden.
  EXPECT_NEAR(seconds("halo", shape, fabric(), 1e6), 100e-6 + 2e-3 + 0.12 + 10e-6 + 1e-3 + 3e-3, 1e-12);
  // Small: flat has 6 messages of 100 us and one of 10 us, HALO 3 of 100 us, then 1 ms and 10 us. 10 ns a byte off the
  // node (HALO: 2 blocks of each of 2 members at once) and 1 ns on it (3 blocks).
  EXPECT_NEAR(seconds("flat", shape, fabric(), 1), 2e-3 + 6 * 100e-6 + 10e-6 + 10e-9, 1e-12);
  EXPECT_NEAR(seconds("halo", shape, fabric(), 1), 2e-3 + 3 * 100e-6 + 40e-9 + 1e-3 + 10e-6 + 3e-9, 1e-12);
}

TEST(PatternTime, UplinksLimitWhatLeavesAGroup) {
  Fabric f = fabric();
  f.uplink_bytes_per_s = 5e7;
  // Groups of 2 nodes of 1: each member sends 2 blocks of 1 MB beyond, a group 4 MB at 50 MB/s: 80 ms from 100 us and 2
  // ms on. The cards have 3 MB at 100 MB/s, 30 ms.
  EXPECT_NEAR(seconds("flat", NodeShape::even(4, 1, 2), f, 1e6), 100e-6 + 2e-3 + 0.08, 1e-12);
}

TEST(PatternTime, TrunksOfAnUplinkShareItsBandwidth) {
  // 3 groups of 2 nodes of 1, and only member 0 sends: 10 MB to member 2, 1 MB to member 4. An uplink of 20 MB/s.
  const NodeShape shape = NodeShape::even(6, 1, 2);
  std::vector<double> rows(36, 0);
  rows[0 * 6 + 2] = 10;
  rows[0 * 6 + 4] = 1;
  Fabric f = fabric();
  f.uplink_bytes_per_s = 2e7;
  const auto at = [&] {
    return pattern_time(plan::make_pattern("flat", shape), shape, f, BlockTable(6, rows), 1e6).seconds;
  };
  // Half of a message's own time each end; 11 MB at 20 MB/s.
  EXPECT_NEAR(at(), 50e-6 + 2e-3 + 0.55, 1e-12);
  // A link of 10 MB/s to each other group.
  f.trunks = Trunks::by_group;
  EXPECT_NEAR(at(), 50e-6 + 2e-3 + 1.0, 1e-12);
  // Four of 5 MB/s by destination: nodes 2 and 4 have links 2 and 0.
  f.trunks = Trunks::by_destination;
  f.num_trunks = 4;
  EXPECT_NEAR(at(), 50e-6 + 2e-3 + 2.0, 1e-12);
  // Two of 10 MB/s: both have link 0.
  f.num_trunks = 2;
  EXPECT_NEAR(at(), 50e-6 + 2e-3 + 1.1, 1e-12);
}

// A bound that no member reaches makes no difference, but takes the other way: messages followed one by one.
TEST(PatternTime, OfOneFreePhaseIsWhatFollowingEveryMessageGives) {
  for (const NodeShape& shape : {NodeShape::even(12, 4), NodeShape::even(16, 2, 4), NodeShape({3, 1, 2})})
    for (const double bytes : {10.0, 1e4, 1e6}) {
      const auto size = static_cast<std::size_t>(shape.size());
      std::vector<double> rows(size * size);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<double>(1 + random_bits(7, i) % 9);
      Fabric f = fabric();
      f.uplink_bytes_per_s = 1.5e8;
      f.trunks = Trunks::by_group;
      const BlockTable counts(shape.size(), rows);
      plan::Pattern pattern = plan::make_pattern("flat", shape);
      const double free = pattern_time(pattern, shape, f, counts, bytes).seconds;
      pattern.phases.front().in_flight = shape.size();
      EXPECT_NEAR(pattern_time(pattern, shape, f, counts, bytes).seconds / free, 1, 1e-12) << to_text(shape) << bytes;
    }
}

TEST(PatternTime, OneNodeStandsForAllWhereTheyAreAlike) {
  for (const NodeShape& shape :
       {NodeShape::even(8, 2), NodeShape::even(12, 4), NodeShape::even(16, 2, 4), NodeShape::one_node(6)})
    for (const std::string& name : plan::pattern_names(shape))
      for (const double bytes : {10.0, 1e5}) {
        const UniformRouting counts(shape.size(), 64, 48, 4);
        const double all = pattern_time(plan::make_pattern(name, shape), shape, fabric(), counts, bytes).seconds;
        EXPECT_NEAR(balanced_time(name, shape, fabric(), counts, bytes).seconds / all, 1, 1e-9)
            << name << " on " << to_text(shape) << ", " << bytes;
        for (const Trunks trunks : {Trunks::together, Trunks::by_group, Trunks::by_destination}) {
          Fabric f = fabric();
          f.uplink_bytes_per_s = 1.5e8;
          f.trunks = trunks;
          f.num_trunks = 3;  // not of equal parts of the nodes: no group stands for all
          const double by_all = pattern_time(plan::make_pattern(name, shape), shape, f, counts, bytes).seconds;
          EXPECT_NEAR(balanced_time(name, shape, f, counts, bytes).seconds / by_all, 1, 1e-9)
              << name << " on " << to_text(shape) << ", " << bytes;
        }
      }
}

TEST(PatternTime, AMemberWithMoreRowsTakesLonger) {
  const NodeShape shape = NodeShape::even(4, 2);
  std::vector<double> rows(16, 1);
  rows[0 * 4 + 2] = 11;  // member 0 has ten more for member 2
  const double t = pattern_time(plan::make_pattern("flat", shape), shape, fabric(), BlockTable(4, rows), 1e6).seconds;
  // Node 0's card: 4 blocks and 10 more, 14 MB, from member 1's first message on (55 us of its own time, and 2 ms).
  EXPECT_NEAR(t, 55e-6 + 2e-3 + 0.14, 1e-12);
}

TEST(PatternTime, ThousandMembersAreQuick) {
  const NodeShape shape = NodeShape::even(1024, 8);
  const auto since = [](auto begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<double> rows(1024 * 1024);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<double>(random_bits(1, i) % 64);
  const BlockTable uneven(1024, std::move(rows));
  for (const std::string name : {"flat", "pairwise", "scattered", "halo", "node_aware", "bruck", "dedup"}) {
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

TEST(Choose, TakesRacesWhereTheyAre) {
  const NodeShape shape = NodeShape::even(4, 2);
  platform::PlatformSpec p;
  p.shared_links = {{.level = "host", .latency_s = 1e-3, .message_s = 10e-6, .bytes_per_s = 1e9},
                    {.level = "network", .latency_s = 2e-3, .message_s = 100e-6, .bytes_per_s = 1e8}};
  const auto raced = [](const char* name, std::vector<double> seconds) {
    return platform::PatternRace{.pattern = name, .source = platform::Source::measured, .nodes = 2, .ranks_per_node = 2,
                                 .top_k = 2, .bytes = {100, 10000}, .seconds = std::move(seconds)};
  };
  p.races = {raced("flat", {1e-3, 4e-3}), raced("halo", {2e-3, 3e-3})};
  // 8 tokens of 2 slots for 4 members: 4 rows a pair.
  const UniformRouting routing(4, 8, 8, 2);
  const auto at = [&](double bytes) { return choose_pattern({"halo", "flat"}, shape, p, routing, bytes / 4); };
  EXPECT_EQ(to_text(at(100)), "flat (raced 1 ms; runner-up halo, 2 ms)");
  EXPECT_EQ(at(10000).pick().pattern, "halo");
  // Half way in the logarithm: the geometric mean, 2 ms.
  EXPECT_NEAR(at(1000).pick().seconds, 2e-3, 1e-9);
  EXPECT_FALSE(at(50000).raced);  // beyond the race
  const UniformRouting other(4, 4, 8, 4);
  EXPECT_FALSE(choose_pattern({"halo", "flat"}, shape, p, other, 25).raced);  // other tokens
  EXPECT_FALSE(choose_pattern({"halo", "flat", "bruck"}, shape, p, routing, 25).raced);  // not all raced
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
  p.device.peaks = {{.flops_per_s = 1e9}};
  const ProbedRates rates(p, DType::float32, 1, 2);
  const plan::Mesh mesh{.pp = 1, .dp = 4, .ep = 4, .ranks_of_host = {2, 2}};
  const MessageCost cost(mesh, rates);
  // Two nodes of two, blocks of 1 MB. Remote: 2 members x 2 blocks by a card, 100 us, 2 ms and 40 ms; then one block on
  // the node, 10 us, 1 ms and 1 ms.
  const plan::BlockTable blocks(4, std::vector<double>(16, 1));
  EXPECT_NEAR(cost.all_to_all(plan::make_pattern("halo", NodeShape::even(4, 2)), 0, blocks, 1e6).seconds, 0.04411, 1e-12);
}

TEST(FabricOf, ADataSheetIsItsLevels) {
  platform::Datasheet sheet;
  sheet.peaks = {{"float32", 1e12}};
  sheet.levels = {{.name = "package", .devices = 2, .latency_s = 1e-6, .bytes_per_s = 2e11},
                  {.name = "node", .devices = 8, .latency_s = 3e-6, .bytes_per_s = 1e11},
                  {.name = "group", .devices = 1024, .latency_s = 8e-6, .bytes_per_s = 25e9, .devices_per_port = 2},
                  {.name = "global", .latency_s = 10e-6, .bytes_per_s = 25e9, .devices_per_port = 2, .taper = 0.5}};
  const Fabric one = fabric_of(sheet, NodeShape::even(64, 8), 1e-6);
  EXPECT_EQ(one.node, (Wire{.latency_s = 3e-6, .message_s = 1e-6, .bytes_per_s = 1e11}));
  EXPECT_EQ(one.group, (Wire{.latency_s = 8e-6, .message_s = 1e-6, .bytes_per_s = 25e9}));
  EXPECT_EQ(one.cards_per_node, 4);
  EXPECT_EQ(one.uplink_bytes_per_s, 0);
  // Groups of 4 nodes, of 4 cards each: half of 16 cards' bandwidth leaves them.
  const Fabric two = fabric_of(sheet, NodeShape::even(64, 8, 4), 1e-6);
  EXPECT_EQ(two.beyond.latency_s, 10e-6);
  EXPECT_EQ(two.uplink_bytes_per_s, 2e11);
  sheet.levels.pop_back();
  try {
    fabric_of(sheet, NodeShape::even(64, 8, 4), 1e-6);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("has none for groups of nodes"));
  }
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
