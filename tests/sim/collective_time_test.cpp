#include "sim/estimate/collective_time.h"

#include <limits>

#include <gtest/gtest.h>

namespace trireme::sim {
namespace {

// Nodes of 8 at 100 B/s a device, a network of 10 B/s a device, no latency.
Machine two_levels() {
  Machine m;
  m.num_levels = 2;
  m.levels[0] = {.devices = 8, .latency_s = 0, .bytes_per_s = 100};
  m.levels[1] = {.devices = std::numeric_limits<double>::infinity(), .latency_s = 0, .bytes_per_s = 10};
  return m;
}

TEST(CollectiveTime, RingInANodeMovesAllButOneShare) {
  // 7/8 of 800 bytes at 100 B/s.
  EXPECT_DOUBLE_EQ(ring_gather_s(two_levels(), {8, 1}, 800), 7);
  EXPECT_DOUBLE_EQ(all_reduce_s(two_levels(), {8, 1}, 800), 14);
  EXPECT_EQ(ring_gather_s(two_levels(), {1, 1}, 800), 0);
}

TEST(CollectiveTime, RingAcrossNodesLeavesByAllItsMembersPorts) {
  // 16 neighbours: 15/16 of 1600 bytes cross each node's boundary over 8 ports of 10 B/s; inside at 100 B/s is slower
  // than nothing: 1500 / 80 against 1500 / 100.
  EXPECT_DOUBLE_EQ(ring_gather_s(two_levels(), {16, 1}, 1600), 18.75);
  // One member a node: one port.
  EXPECT_DOUBLE_EQ(ring_gather_s(two_levels(), {16, 8}, 1600), 150);
}

TEST(CollectiveTime, AllToAllCarriesEachLevelsPart) {
  // To 7 of 8 in the node at 100; of 16, half leaves the node: 800 / 10.
  EXPECT_DOUBLE_EQ(all_to_all_s(two_levels(), {8, 1}, 800), 7);
  EXPECT_DOUBLE_EQ(all_to_all_s(two_levels(), {16, 1}, 1600), 80);
}

TEST(CollectiveTime, EightMessagesShareALatency) {
  Machine m = two_levels();
  m.levels[1].latency_s = 2;
  // 8 nodes of 8: 63 peers, 56 of them outside; a tree of 6 steps is less than 63 / 8 latencies.
  EXPECT_DOUBLE_EQ(all_to_all_s(m, {64, 1}, 0), 2 * 63.0 / 8);
  // 7 peers, one a node: a tree of three steps.
  EXPECT_DOUBLE_EQ(all_to_all_s(m, {8, 8}, 0), 2 * 3);
}

TEST(CollectiveTime, AMeshReachesPeersOverTheirOwnLinks) {
  Machine m = two_levels();
  m.levels[0].mesh = true;
  // Two of eight share one of seven links.
  EXPECT_DOUBLE_EQ(ring_gather_s(m, {2, 1}, 800), 400 / (100.0 / 7));
  EXPECT_DOUBLE_EQ(ring_gather_s(m, {8, 1}, 800), 7);
}

TEST(CollectiveTime, AxesLieAsTheMeshSays) {
  plan::LayoutSpec l;
  l.pp = 2, l.dp = 4, l.cp = 2, l.tp = 2, l.ep = 4, l.etp = 2;
  EXPECT_EQ(place_of(l, Axis::dp).size, 8);  // dp x cp
  EXPECT_EQ(place_of(l, Axis::dp).stride, 2);
  EXPECT_EQ(place_of(l, Axis::edp).size, 2);  // 16 ranks of a stage over ep x etp
  EXPECT_EQ(place_of(l, Axis::edp).stride, 8);
  EXPECT_EQ(place_of(l, Axis::pp).stride, 16);
}

}  // namespace
}  // namespace trireme::sim
