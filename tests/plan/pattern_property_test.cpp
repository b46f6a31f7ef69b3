// Every pattern against the definition: row (s, t, k) of member s ends with the member that slot k of token t names,
// once; results come back summed by token.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/rng.h"
#include "plan/all_to_all/generators.h"
#include "plan/all_to_all/row_counts.h"
#include "plan/all_to_all/traffic.h"
#include "plan/pattern_interpreter.h"

namespace trireme::plan {
namespace {

using testing::Interpreter;
using ::testing::IsEmpty;
using testing::Row;
using testing::Slots;

// Up to 6 tokens of up to 4 slots a member; a third of the members has none.
Slots random_slots(int size, std::uint64_t seed) {
  const auto key = stream_key(seed, "slots");
  std::uint64_t drawn = 0;
  const auto below = [&](int n) { return static_cast<int>(random_bits(key, drawn++) % static_cast<std::uint64_t>(n)); };
  Slots slots(static_cast<std::size_t>(size));
  for (auto& tokens : slots) {
    tokens.resize(static_cast<std::size_t>(below(3) == 0 ? 0 : below(7)));
    for (auto& token : tokens) {
      token.resize(static_cast<std::size_t>(below(5)));
      for (int& d : token) d = below(size);
    }
  }
  return slots;
}

std::vector<NodeShape> shapes() {
  std::vector<NodeShape> out;
  for (int size = 1; size <= 16; ++size)
    for (int per_node = 1; per_node <= 4; ++per_node)
      out.push_back(NodeShape::even(size, per_node));  // last node may be smaller
  for (const std::vector<int>& nodes : {std::vector<int>{3, 1, 2}, {1, 4}, {4, 1, 3, 2}, {2, 5, 1}, {1, 1, 3}})
    out.push_back(NodeShape(nodes));
  out.push_back(NodeShape::even(16, 2, 4));
  out.push_back(NodeShape::even(12, 2, 2));
  out.push_back(NodeShape({3, 1, 2, 2}, 2));
  out.push_back(NodeShape({1, 2, 1, 3, 2, 1}, 3));
  return out;
}

void check(const Pattern& p, const NodeShape& shape, const Slots& slots) {
  SCOPED_TRACE(p.name + " on " + to_text(shape));
  ASSERT_THAT(problems(p), IsEmpty());
  const Pattern back = transpose(p);
  ASSERT_THAT(problems(back), IsEmpty());
  EXPECT_EQ(transpose(back), p);

  std::vector<std::vector<double>> value(slots.size()), expected_sum(slots.size());
  std::vector<std::map<Row, double>> expected(slots.size());
  std::map<Row, double> result;
  double number = 1;
  for (int s = 0; s < p.size; ++s)
    for (int t = 0; t < static_cast<int>(slots[s].size()); ++t) {
      value[s].push_back(number += 1);
      expected_sum[s].push_back(0);
      for (int k = 0; k < static_cast<int>(slots[s][t].size()); ++k) {
        expected[slots[s][t][k]][{s, t, k}] = value[s][t];
        result[{s, t, k}] = number += 1;
        expected_sum[s][t] += result[{s, t, k}];  // whole numbers: sums are exact in any order
      }
    }
  Interpreter there(p, slots), home(back, slots);
  EXPECT_EQ(there.dispatch(value), expected);
  EXPECT_EQ(home.combine(result), expected_sum);

  // What the value says of its messages is what crossed, both ways.
  const TokenRoutes routes(shape, slots);
  for (const auto& [pattern, run] : {std::pair{&p, &there}, {&back, &home}}) {
    const auto by_member = traffic(*pattern, shape, routes);
    for (int m = 0; m < p.size; ++m) {
      double on = 0, off = 0;
      for (const auto& [pair, rows] : run->crossed())
        if (pair.first == m) (shape.node(pair.second) == shape.node(m) ? on : off) += static_cast<double>(rows);
      EXPECT_EQ(by_member[m].on_node().rows, on) << m;
      EXPECT_EQ(by_member[m].off_node().rows, off) << m;
    }
  }
}

TEST(EveryPattern, MovesEveryRowOnceAndBack) {
  std::uint64_t seed = 0;
  for (const NodeShape& shape : shapes())
    for (const std::string& name : priced_pattern_names(shape))
      check(make_pattern(name, shape, {.in_flight = 3}), shape, random_slots(shape.size(), ++seed));
}

TEST(EveryPattern, MovesNothingAtAll) {
  const NodeShape shape = NodeShape::even(8, 2, 2);
  for (const std::string& name : priced_pattern_names(shape)) check(make_pattern(name, shape), shape, Slots(8));
}

TEST(EveryPattern, IsTheSumOfItsSenders) {
  for (const NodeShape& shape : {NodeShape::even(12, 4), NodeShape::even(8, 2, 2), NodeShape({3, 1, 2})})
    for (const std::string& name : priced_pattern_names(shape)) {
      const Pattern all = make_pattern(name, shape);
      std::size_t transfers = 0, parts = 0;
      for (const Phase& phase : all.phases) transfers += phase.transfers.size();
      for (int m = 0; m < shape.size(); ++m) {
        const Pattern part = make_pattern(name, shape, {.senders = {m, 1}});
        ASSERT_EQ(part.phases.size(), all.phases.size());
        for (std::size_t i = 0; i < part.phases.size(); ++i) {
          std::vector<Transfer> own;
          for (const Transfer& t : all.phases[i].transfers)
            if (t.from == m) own.push_back(t);
          EXPECT_EQ(part.phases[i].transfers, own) << name << " of " << m;
          parts += own.size();
        }
      }
      EXPECT_EQ(parts, transfers);
    }
}

// Messages off the node a member: (N - 1) g flat; N - 1 in HALO, node-aware, all-gather and dedup.
TEST(EveryPattern, HasItsNumberOfMessages) {
  for (const auto& [nodes, ranks] : {std::pair{1, 4}, {2, 2}, {4, 2}, {8, 4}, {16, 2}, {5, 3}}) {
    const NodeShape shape = NodeShape::even(nodes * ranks, ranks);
    const UniformRouting one(shape.size(), 1, shape.size(), 1);
    for (const std::string& name : priced_pattern_names(shape)) {
      if (name == "bruck") continue;
      const bool direct = name == "flat" || name == "pairwise" || name == "scattered";
      for (const Traffic& t : traffic(make_pattern(name, shape), shape, one))
        EXPECT_EQ(t.off_node().messages, direct ? (nodes - 1) * ranks : nodes - 1) << name;
    }
  }
  // 16 members in 8 nodes of 2, groups of 4 nodes: 1 far message and 3 near ones.
  const NodeShape groups = NodeShape::even(16, 2, 4);
  for (const Traffic& t : traffic(make_pattern("halo3", groups), groups, UniformRouting(16, 1, 16, 1))) {
    EXPECT_EQ(t.at(Reach::beyond).messages, 1);
    EXPECT_EQ(t.at(Reach::group).messages, 3);
  }
  // Bruck: ceil(log2 p).
  for (const auto& [size, rounds] : {std::pair{1, 0}, {2, 1}, {3, 2}, {8, 3}, {9, 4}, {16, 4}}) {
    const NodeShape shape = NodeShape::one_node(size);
    EXPECT_EQ(traffic(make_pattern("bruck", size), 0, shape, UniformRouting(size, 1, size, 1)).total().messages,
              rounds);
  }
}

// Blocks of one row on N nodes of g: what leaves a node is g * (p - g) rows however it is sent, so p - g a member.
TEST(EveryPattern, OfEachRowCarriesTheSameOffTheNode) {
  const NodeShape shape = NodeShape::even(12, 3);
  for (const std::string name : {"flat", "pairwise", "scattered", "node_aware", "halo"})
    for (const Traffic& t : traffic(make_pattern(name, shape), shape, BlockTable(12, std::vector<double>(144, 1))))
      EXPECT_EQ(t.off_node().rows, 9) << name;
}

// Redundancy: the share of (token, slot) rows that need not travel, 1 - N (1 - C(E - E/N, k) / C(E, k)) / k.
// 75.09, 54.82 and 33.82 % for E = 256, k = 8 on 2, 4 and 8 nodes: computed with exact fractions; X-MoE (arXiv
// 2508.13337) measured 75.1 and 54.8.
TEST(Dedup, SavesWhatUniformRoutingSays) {
  for (const auto& [nodes, redundancy] : {std::pair{2, 0.7509}, {4, 0.5482}, {8, 0.3382}}) {
    const NodeShape shape = NodeShape::even(nodes * 2, 2);
    const auto rows = [&](const char* name, const RowCounts& counts) {
      double sum = 0;
      for (const Traffic& t : traffic(make_pattern(name, shape), shape, counts)) sum += t.off_node().rows;
      return sum;
    };
    const UniformRouting expected(shape.size(), 1000, 256, 8);
    EXPECT_NEAR(1 - rows("dedup", expected) / rows("flat", expected), redundancy, 5e-5) << nodes;

    // And on drawn routes: 8 different ones of 256 experts, a permutation's first.
    Slots slots(static_cast<std::size_t>(shape.size()));
    std::uint64_t draw = 0;
    for (auto& tokens : slots)
      for (int t = 0; t < 1500; ++t) {
        std::vector<std::int64_t> experts(256);
        random_permutation(stream_key(++draw, "experts"), experts);
        tokens.emplace_back();
        for (int k = 0; k < 8; ++k)
          tokens.back().push_back(static_cast<int>(experts[static_cast<std::size_t>(k)]) * shape.size() / 256);
      }
    const TokenRoutes routes(shape, slots);
    EXPECT_NEAR(1 - rows("dedup", routes) / rows("flat", routes), redundancy, 0.01) << nodes;
  }
}

TEST(AllGather, BeatsFlatOffTheNodeExactlyWhenKExceedsTheNodes) {
  for (int nodes = 2; nodes <= 12; ++nodes)
    for (int k = 1; k <= 16; ++k) {
      const NodeShape shape = NodeShape::even(nodes * 2, 2);
      const UniformRouting counts(shape.size(), 100, 24 * nodes, k);
      const double flat = traffic(make_pattern("flat", shape), 0, shape, counts).off_node().rows;
      const double gather = traffic(make_pattern("allgather_a2a", shape), 0, shape, counts).off_node().rows;
      // Equal at k = N: 100 k (N - 1) / N against 100 (N - 1).
      EXPECT_EQ(gather<flat*(1 - 1e-12), k> nodes) << nodes << " nodes, k " << k;
    }
}

TEST(NodeShape, SaysWhereMembersAre) {
  const NodeShape shape({2, 3, 1, 2}, 2);
  EXPECT_EQ(shape.size(), 8);
  EXPECT_EQ(shape.node(4), 1);
  EXPECT_EQ(shape.local(4), 2);
  EXPECT_EQ(shape.counterpart(0, 2), 0);
  EXPECT_EQ(shape.reach(0, 1), Reach::node);
  EXPECT_EQ(shape.reach(0, 2), Reach::group);
  EXPECT_EQ(shape.reach(0, 5), Reach::beyond);
  EXPECT_FALSE(shape.is_even());
  EXPECT_EQ(to_text(shape), "nodes of 2+3+1+2 in groups of 2");
  EXPECT_EQ(NodeShape::of_hosts({"a", "a", "b"}), NodeShape({2, 1}));
  try {
    NodeShape::of_hosts({"a", "b", "a"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("member 2 of the group is on the host of member 0, others between"));
  }
  try {
    make_pattern("halo3", NodeShape::even(8, 2));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("halo3 on 4 nodes of 2"));
  }
}

}  // namespace
}  // namespace trireme::plan
