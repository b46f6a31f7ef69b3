#include "network.h"

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.h"
#include "comparison.h"
#include "execution.h"
#include "plan/all_to_all/generators.h"

namespace trireme::simgrid_bench {
namespace {

using plan::NodeShape;

// Blocks of a flat exchange: rows of `bytes` from a member to another.
struct Block {
  int from = 0, to = 0;
  double rows = 1;
};

// 8 nodes of 8 in 2 groups, 4 cards a node: on the node 3 us and 100 GB/s, off it 8 us, beyond the group 10 us, 25 GB/s
// a card; half of what 16 cards inject leaves a group.
sim::Fabric fabric(Topology topology) {
  sim::Fabric f{.node = {.latency_s = 3e-6, .bytes_per_s = 100e9},
                .group = {.latency_s = 8e-6, .bytes_per_s = 25e9},
                .beyond = {.latency_s = 10e-6, .bytes_per_s = 25e9},
                .cards_per_node = 4,
                .uplink_bytes_per_s = 200e9};
  return with_trunks(f, NodeShape::even(64, 8, 4), topology);
}

double seconds(Topology topology, const std::vector<Block>& blocks, double bytes, double message_s = 0) {
  const NodeShape shape = NodeShape::even(64, 8, 4);
  const sim::Fabric f = fabric(topology);
  const auto engine = make_engine();
  const auto hosts = make_network(f, shape, topology);
  std::vector<double> rows(64 * 64, 0);
  for (const Block& b : blocks) rows[static_cast<std::size_t>(b.from * 64 + b.to)] = b.rows;
  const plan::BlockTable counts(64, rows);
  double out = 0;
  simgrid::s4u::Actor::create("run", hosts.front(), [&] {
    out = execute(plan::make_pattern("flat", shape), hosts, counts, bytes, message_s).seconds;
  });
  engine->run();
  return out;
}

[[noreturn]] void leave(double got_s, double expected_s) {
  std::fprintf(stderr, "%.9f s, expected %.9f s\n", got_s, expected_s);
  std::_Exit(std::abs(got_s / expected_s - 1) < 1e-3 ? 0 : 1);
}

// In a child: one engine a process. The child's exit status says whether it holds.
#define EXPECT_SECONDS(got, expected) EXPECT_EXIT(leave(got, expected), ::testing::ExitedWithCode(0), "")

TEST(SimGridNetwork, OneMessageHasItsWire) {
  for (const Topology t : {Topology::dragonfly, Topology::fat_tree}) {
    EXPECT_SECONDS(seconds(t, {{0, 1}}, 100e6), 3e-6 + 1e-3);  // 100 MB at 100 GB/s
    EXPECT_SECONDS(seconds(t, {{0, 8}}, 25e6), 8e-6 + 1e-3);   // 25 MB at 25 GB/s
    EXPECT_SECONDS(seconds(t, {{0, 32}}, 25e6), 10e-6 + 1e-3);
    EXPECT_SECONDS(seconds(t, {{0, 32}}, 1), 10e-6);
    EXPECT_SECONDS(seconds(t, {{0, 1}, {0, 2}}, 50e6), 3e-6 + 1e-3);  // by one port
  }
}

TEST(SimGridNetwork, TwoDevicesShareACard) {
  for (const Topology t : {Topology::dragonfly, Topology::fat_tree}) {
    EXPECT_SECONDS(seconds(t, {{0, 8}, {1, 16}}, 25e6), 8e-6 + 2e-3);
    EXPECT_SECONDS(seconds(t, {{0, 8}, {2, 16}}, 25e6), 8e-6 + 1e-3);
    // The two ways of a card do not share.
    EXPECT_SECONDS(seconds(t, {{0, 8}, {8, 0}}, 25e6), 8e-6 + 1e-3);
    // Equal shares whatever the latency: the card is busy from 8 us on, with 2 ms of work.
    EXPECT_SECONDS(seconds(t, {{0, 8}, {1, 32}}, 25e6), 8e-6 + 2e-3);
  }
}

TEST(SimGridNetwork, WhatLeavesAGroupSharesItsUplink) {
  // All 8 devices of nodes 0 to 3 to their places in nodes 4 to 7: 32 x 25 MB, 800 MB by 200 GB/s. The fat tree has two
  // spines of 100 GB/s, and destinations alternate.
  std::vector<Block> all;
  for (int m = 0; m < 32; ++m) all.push_back({m, m + 32});
  EXPECT_SECONDS(seconds(Topology::dragonfly, all, 25e6), 10e-6 + 4e-3);
  EXPECT_SECONDS(seconds(Topology::fat_tree, all, 25e6), 10e-6 + 4e-3);
  // Only to nodes 4 and 6, two nodes each: one spine of two carries it all, and their cards take 100 GB/s a node. The
  // dragonfly's link has room for both.
  all.clear();
  for (int m = 0; m < 32; ++m) all.push_back({m, m < 16 ? 32 + m % 8 : 48 + m % 8});
  EXPECT_SECONDS(seconds(Topology::dragonfly, all, 25e6), 10e-6 + 4e-3);
  EXPECT_SECONDS(seconds(Topology::fat_tree, all, 25e6), 10e-6 + 8e-3);
}

TEST(SimGridNetwork, AMembersOwnTimeComesFirst) {
  // Three sends of half a message's time each, one after another, to three that wait.
  EXPECT_SECONDS(seconds(Topology::dragonfly, {{0, 8}, {0, 16}, {0, 24}}, 1, 20e-6), 3 * 10e-6 + 8e-6);
}

[[noreturn]] void compare_with_groups_of(int nodes) {
  const auto engine = make_engine();
  try {
    Comparison comparison({.platform = std::string(TRIREME_SOURCE_DIR) + "/configs/platforms/frontier.toml",
                           .ranks = 64,
                           .ranks_per_node = 8,
                           .nodes_per_group = nodes});
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(2);
  }
  std::_Exit(0);
}

TEST(SimGridNetwork, OfTooManyGroupsIsRefused) {
  EXPECT_EXIT(compare_with_groups_of(4), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(compare_with_groups_of(2), ::testing::ExitedWithCode(2),
              "nodes-per-group.*at least the number of groups");
}

}  // namespace
}  // namespace trireme::simgrid_bench
