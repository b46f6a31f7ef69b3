#include "sim/network/crowd_time.h"

#include <cmath>

#include <gtest/gtest.h>

#include "plan/all_to_all/generators.h"
#include "plan/all_to_all/row_counts.h"

namespace trireme::sim {
namespace {

using plan::BlockTable;
using plan::NodeShape;
using plan::UniformRouting;

// On the node 1 ms, 10 us a message, 1 GB/s a member; off it 2 ms, 100 us a message, 0.1 GB/s a card: with one partner
// as with all.
Fabric crowded() {
  const Wire off{.latency_s = 2e-3, .message_s = 100e-6, .bytes_per_s = 1e8, .turn_s = 2e-3, .alone_bytes_per_s = 1e8};
  return {.node = {.latency_s = 1e-3, .message_s = 10e-6, .bytes_per_s = 1e9, .turn_s = 1e-3, .alone_bytes_per_s = 1e9},
          .group = off,
          .beyond = off};
}

BlockTable equal(int size) {
  return BlockTable(size, std::vector<double>(static_cast<std::size_t>(size * size), 1));
}

double seconds(const char* name, const NodeShape& shape, const Fabric& f, double bytes) {
  return pattern_time(plan::make_pattern(name, shape), shape, f, equal(shape.size()), bytes).seconds;
}

TEST(CrowdTime, OfOneNodeIsItsPort) {
  // 3 messages of 1 MB at 1 GB/s: 3 ms, and 1 ms.
  EXPECT_NEAR(seconds("flat", NodeShape::one_node(4), crowded(), 1e6), 4e-3, 1e-12);
  // 3 of 100 bytes: the member's own time counts, 3 sent and 3 received at 10 us a pair of ends.
  EXPECT_NEAR(seconds("flat", NodeShape::one_node(4), crowded(), 100), 1e-3 + 30e-6, 1e-12);
  // One after another: a latency for each; the last receive's latency is in them.
  EXPECT_NEAR(seconds("pairwise", NodeShape::one_node(4), crowded(), 1e6), 3e-3 + 3e-3, 1e-12);
}

TEST(CrowdTime, OfManyNodesIsTheCard) {
  const NodeShape shape = NodeShape::even(8, 2);
  // 2 members x 6 blocks of 1 MB leave a node by one card: 12 MB at 0.1 GB/s, and 2 ms.
  EXPECT_NEAR(seconds("flat", shape, crowded(), 1e6), 0.122, 1e-12);
  // One at a time: a member's own 13 ms of latencies and 61 ms of transfers pass while the card carries the other's
  // too.
  EXPECT_NEAR(seconds("pairwise", shape, crowded(), 1e6), 0.122, 1e-12);
  // HALO: remote the same 122 ms, then 1 message of 3 blocks on the node, 3 ms and 1 ms; local is hidden.
  EXPECT_NEAR(seconds("halo", shape, crowded(), 1e6), 0.122 + 4e-3, 1e-12);
  // Small: flat has 6 messages of 100 us and one of 10 us, HALO 3 of 100 us, then 1 ms and 10 us.
  EXPECT_NEAR(seconds("flat", shape, crowded(), 1), 2e-3 + 6 * 100e-6 + 10e-6, 1e-12);
  EXPECT_NEAR(seconds("halo", shape, crowded(), 1), 2e-3 + 3 * 100e-6 + 1e-3 + 10e-6, 1e-12);
}

TEST(CrowdTime, ABucketPassesAtOnceAndManyFlowsShareWorse) {
  const NodeShape shape = NodeShape::even(8, 2);
  Fabric f = crowded();
  // 12 MB, 2 of which are in the bucket.
  f.group.bucket_bytes = f.beyond.bucket_bytes = 2e6;
  EXPECT_NEAR(seconds("flat", shape, f, 1e6), 0.102, 1e-12);
  // With 4 partners or more half as fast; flat has 6 messages off the node under way, HALO 3: of the logarithms' way
  // from 1 to 4, log 3 / log 4.
  f = crowded();
  f.group.bytes_per_s = f.beyond.bytes_per_s = 5e7;
  f.group.partners = f.beyond.partners = 4;
  EXPECT_NEAR(seconds("flat", shape, f, 1e6), 0.242, 1e-12);
  const double rate = 1e8 * std::pow(0.5, std::log(3.0) / std::log(4.0));
  EXPECT_NEAR(seconds("halo", shape, f, 1e6), 2e-3 + 12e6 / rate + 4e-3, 1e-12);
}

TEST(CrowdTime, BlendsOwnWorkWithTheWires) {
  // 3 messages of 10 us and 30 KB at 1 GB/s, 30 us each: with p = 2 sqrt(2) x 30 us, with 1 both.
  Fabric f = crowded();
  const NodeShape shape = NodeShape::one_node(4);
  f.node.blend = 2;
  EXPECT_NEAR(seconds("flat", shape, f, 1e4), 1e-3 + std::sqrt(2.0) * 30e-6, 1e-12);
  f.node.blend = 1;
  EXPECT_NEAR(seconds("flat", shape, f, 1e4), 1e-3 + 60e-6, 1e-12);
}

TEST(CrowdTime, LatencyThatIsOwnWorkAddsUp) {
  // HALO on 2 nodes of 2: all of remote's 2 ms and 100 us is the member's own work, then local's 1 ms and 10 us, and
  // only then the redistribution's.
  Fabric f = crowded();
  f.node.own_latency = f.group.own_latency = f.beyond.own_latency = 1;
  EXPECT_NEAR(seconds("halo", NodeShape::even(4, 2), f, 1), 2.1e-3 + 1.01e-3 + 1.01e-3, 1e-7);
}

TEST(CrowdTime, OneNodeStandsForAllWhereTheyAreAlike) {
  for (const NodeShape& shape : {NodeShape::even(8, 2), NodeShape::even(12, 4), NodeShape::one_node(6)})
    for (const std::string& name : plan::pattern_names(shape))
      for (const double bytes : {10.0, 1e5}) {
        const UniformRouting counts(shape.size(), 64, 48, 4);
        const double all = pattern_time(plan::make_pattern(name, shape), shape, crowded(), counts, bytes).seconds;
        EXPECT_NEAR(balanced_time(name, shape, crowded(), counts, bytes).seconds / all, 1, 1e-12)
            << name << " on " << to_text(shape) << ", " << bytes;
      }
}

TEST(CrowdTime, ABoundCostsTurnsAfterTheFirst) {
  // 7 messages on the node: a latency of 1 ms, 7 x 10 us, then 0.4 ms for each later turn of as many as may be under
  // way and 50 us a message: members that are ahead go on, so the latency, which is of the whole, is not paid again.
  Fabric f = crowded();
  f.node.turn_s = 0.4e-3;
  f.node.wake_s = 50e-6;
  const NodeShape shape = NodeShape::one_node(8);
  const auto bounded = [&](int in_flight) {
    plan::Pattern p = plan::make_pattern("scattered", shape, {.in_flight = in_flight});
    return pattern_time(p, shape, f, equal(8), 1).seconds;
  };
  EXPECT_NEAR(bounded(1), 1e-3 + 7 * 60e-6 + 6 * 0.4e-3, 1e-7);
  EXPECT_NEAR(bounded(2), 1e-3 + 7 * 60e-6 + 2.5 * 0.4e-3, 1e-7);
  // A bound that nothing meets costs nothing.
  EXPECT_NEAR(bounded(7), 1e-3 + 7 * 10e-6, 1e-7);
  // 8 KB messages at 1 GB/s, 56 us: the wire rests in a turn, so both add up where no blend is known. With p = 2 they
  // go together.
  const auto of_8_kb = [&] {
    return pattern_time(plan::make_pattern("pairwise", shape), shape, f, equal(8), 8e3).seconds;
  };
  f.node.wake_s = 0;
  EXPECT_NEAR(of_8_kb(), 1e-3 + 6 * 0.4e-3 + 70e-6, 1e-7);  // own work of 70 us covers the wire's 56
  f.node.blend = 2;
  EXPECT_NEAR(of_8_kb(), 1e-3 + std::hypot(6 * 0.4e-3 + 70e-6, 56e-6), 1e-7);
}

TEST(CrowdTime, RoundsOfOneMessageAreStepsOfAChain) {
  // Bruck on 8 members of a node: 3 rounds of one message. The first one's latency of 1 ms, then a turn of 0.4 ms and
  // 50 us of the member's own each, and 10 us a message.
  Fabric f = crowded();
  f.node.turn_s = 0.4e-3;
  f.node.wake_s = 50e-6;
  EXPECT_NEAR(seconds("bruck", NodeShape::one_node(8), f, 1), 1e-3 + 2 * 0.45e-3 + 3 * 10e-6, 1e-7);
}

TEST(CrowdTime, PhasesSideBySideTakeTurnsOnAWire) {
  // 2 nodes of 1, 1 MB each way in each of two phases side by side: the second one's 10 ms on the card come behind the
  // first one's, and a third phase, after the first (2 + 10 ms), behind both.
  plan::Pattern p{.name = "twice", .size = 2};
  const std::vector<plan::Transfer> across{{0, 1, {plan::block(0, 1)}}, {1, 0, {plan::block(1, 0)}}};
  p.phases = {{.name = "first", .transfers = across}, {.name = "second", .transfers = across}};
  const auto phases = [&] { return pattern_time(p, NodeShape({1, 1}), crowded(), equal(2), 1e6).phases; };
  EXPECT_NEAR(phases()[0].end_s, 12e-3, 1e-12);
  EXPECT_NEAR(phases()[1].end_s, 22e-3, 1e-12);
  p.phases.push_back({.name = "third", .transfers = across, .after = {0}});
  EXPECT_NEAR(phases()[2].begin_s, 12e-3, 1e-12);
  EXPECT_NEAR(phases()[2].end_s, 32e-3, 1e-12);
}

TEST(CrowdTime, GatheringRowsIsAMembersOwnWork) {
  // HALO on 2 nodes of 2, blocks of 1 MB, copied at 100 MB/s. Remote sends the member's own blocks as they lie. Of what
  // came one block goes on by itself, from one source: nothing is gathered.
  Fabric f = crowded();
  f.copy_bytes_per_s = 1e8;
  const NodeShape two = NodeShape::even(4, 2), four = NodeShape::even(8, 2);
  EXPECT_NEAR(seconds("halo", two, f, 1e6), seconds("halo", two, crowded(), 1e6), 1e-12);
  // On 4 nodes 3 blocks of other sources go on in one message: gathered there, sorted here, 6 MB at 100 MB/s beside 1
  // ms and 10 us; the port's 3 ms are less.
  EXPECT_NEAR(seconds("halo", four, f, 1e6), 0.122 + 1e-3 + 10e-6 + 0.06, 1e-9);
}

TEST(CrowdTime, PhasesSideBySideShareTheMember) {
  // 1 ms a message on the node: local's one comes after remote's 3 x 100 us and is done at 1.3 ms, before the
  // redistribution could start, at 2.3 ms. With 3 ms a message it is done at 3.3 ms only; then 1 ms of latency and 3
  // ms.
  Fabric f = crowded();
  const NodeShape shape = NodeShape::even(8, 2);
  f.node.message_s = 1e-3;
  EXPECT_NEAR(seconds("halo", shape, f, 1), 2.3e-3 + 2e-3, 1e-7);
  f.node.message_s = 3e-3;
  EXPECT_NEAR(seconds("halo", shape, f, 1), 3.3e-3 + 4e-3, 1e-7);
}

}  // namespace
}  // namespace trireme::sim
