#include "comm/pattern_exchange.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/all_to_all/flat.h"
#include "plan/all_to_all/generators.h"
#include "support/rank_threads.h"

namespace trireme::comm {
namespace {

using plan::Block;
using plan::Pattern;
using plan::Phase;
using testing::run_mesh;

// Two nodes of two members, node-aware: phase 1 inside the node gathers on member (node, i) all that the node has for
// members (other node, i) and delivers what stays in the node; phase 2 sends it across in one message of two blocks.
Pattern node_aware_2x2() {
  Phase local{.name = "local"}, remote{.name = "remote", .after = {0}};
  for (int from = 0; from < 4; ++from) {
    const int node = from / 2, other = 1 - node;
    for (int i = 0; i < 2; ++i) {
      local.transfers.push_back(
          {from, 2 * node + i, {plan::block(from, 2 * other + i), plan::block(from, 2 * node + i)}});
    }
    const int to = 2 * other + from % 2;
    remote.transfers.push_back(
        {from, to, {plan::block(2 * node + 1, to), plan::block(2 * node, to)}});  // not in ascending order, on purpose
  }
  return {.name = "node_aware", .size = 4, .phases = {local, remote}};
}

// (2 s + 3 d) mod 4 rows: with zeros, uneven, not symmetric. Member 3's row is emptied: it has nothing for anybody.
std::int64_t count(int s, int d) {
  return s == 3 ? 0 : (2 * s + 3 * d) % 4;
}

at::Tensor block_rows(int s, int d) {
  return (at::arange(count(s, d), at::kFloat) + static_cast<float>(100 * s + 10 * d)).reshape({-1, 1}).expand({-1, 3});
}

at::Tensor rows_from(int s, int size) {
  std::vector<at::Tensor> blocks;
  for (int d = 0; d < size; ++d) blocks.push_back(block_rows(s, d));
  return at::cat(blocks);
}

at::Tensor rows_for(int d, int size) {
  std::vector<at::Tensor> blocks;
  for (int s = 0; s < size; ++s) blocks.push_back(block_rows(s, d));
  return at::cat(blocks);
}

std::vector<std::int64_t> counts_from(int s, int size) {
  std::vector<std::int64_t> counts;
  for (int d = 0; d < size; ++d) counts.push_back(count(s, d));
  return counts;
}

void check_there_and_back(const Pattern& pattern) {
  ASSERT_EQ(plan::problems(pattern), std::vector<std::string>{});
  const int size = pattern.size;
  run_mesh({.dp = size, .ep = size}, [&](int rank, Communicator& communicator) {
    PatternExchange exchange(communicator.group(Axis::ep), pattern);
    for (int again = 0; again < 2; ++again) {  // the second time with the first one's buffers
      const auto counts = exchange.exchange_counts(counts_from(rank, size), "counts");
      for (int s = 0; s < size; ++s) EXPECT_EQ(counts.at({s, rank}), count(s, rank));
      const at::Tensor sent = rows_from(rank, size);
      const at::Tensor received = exchange.dispatch(sent, counts, "dispatch");
      EXPECT_TRUE(at::equal(received, rows_for(rank, size))) << pattern.name << ", rank " << rank;
      const at::Tensor returned = exchange.combine(received, counts, "combine");
      EXPECT_TRUE(at::equal(returned, sent)) << pattern.name << ", rank " << rank;
    }
  });
}

TEST(PatternExchange, Flat) {
  for (const int size : {1, 2, 3, 4, 5}) check_there_and_back(plan::flat(size));
}

TEST(PatternExchange, EveryPatternOfBlocks) {
  std::vector<plan::NodeShape> shapes{plan::NodeShape({3, 1, 2}), plan::NodeShape::even(8, 2, 2)};
  for (const int size : {1, 2, 5, 8})
    for (const int per_node : {1, 2, 3}) shapes.push_back(plan::NodeShape::even(size, per_node));
  for (const plan::NodeShape& shape : shapes)
    for (const std::string& name : plan::pattern_names(shape)) {
      if (name == "dedup" || name == "allgather_a2a") continue;  // token_exchange_test
      SCOPED_TRACE(name + " on " + plan::to_text(shape));
      check_there_and_back(plan::make_pattern(name, shape, {.in_flight = 2}));
    }
}

TEST(PatternExchange, TwoPhasesGiveWhatFlatGives) {
  check_there_and_back(node_aware_2x2());
}

TEST(PatternExchange, ARelayThroughAThirdMember) {
  // Block (0, 2) goes through member 1, in phases that others sit out.
  Pattern pattern = plan::flat(3);
  auto& direct = pattern.phases[0].transfers;
  std::erase_if(direct, [](const plan::Transfer& t) { return t.from == 0 && t.to == 2; });
  pattern.name = "relay";
  for (plan::Transfer& t : direct)
    if (t.from == 0 && t.to == 1) t.parcels.push_back(plan::block(0, 2));
  pattern.phases.push_back({.name = "onward", .transfers = {{1, 2, {plan::block(0, 2)}}}, .after = {0}});
  EXPECT_FALSE(is_direct(pattern));
  check_there_and_back(pattern);
}

TEST(PatternExchange, AFlatMemberKnowsItsOwnCountsOnly) {
  EXPECT_TRUE(is_direct(plan::flat(4)));
  EXPECT_FALSE(is_direct(node_aware_2x2()));
  EXPECT_FALSE(is_direct(plan::pairwise(4)));
  run_mesh({.dp = 4, .ep = 4}, [](int rank, Communicator& communicator) {
    Group& group = communicator.group(Axis::ep);
    const auto flat_counts = exchange_block_counts(group, plan::flat(4), counts_from(rank, 4), "counts");
    const auto all_counts = exchange_block_counts(group, node_aware_2x2(), counts_from(rank, 4), "counts");
    for (int s = 0; s < 4; ++s) {
      for (int d = 0; d < 4; ++d) {
        EXPECT_EQ(flat_counts.known({s, d}), s == rank || d == rank);
        if (all_counts.known({s, d})) {
          EXPECT_EQ(all_counts.at({s, d}), count(s, d));
        }
      }
    }
    // What a member sends or receives in some phase, it knows the counts of.
    const Pattern pattern = node_aware_2x2();
    for (const plan::Phase& phase : pattern.phases)
      for (const plan::Transfer& t : phase.transfers)
        for (const plan::Parcel& parcel : t.parcels)
          for (int s = 0; s < parcel.sources.count && (t.from == rank || t.to == rank); ++s)
            for (int d = 0; d < parcel.destinations.count; ++d)
              EXPECT_TRUE(all_counts.known({parcel.sources[s], parcel.destinations[d]}));
  });
}

TEST(PatternExchange, WrongCountsAreABug) {
  BlockCounts counts(2);
  EXPECT_THROW(counts.at({0, 1}), std::logic_error);
  EXPECT_THROW(counts.at({0, 2}), std::logic_error);
  EXPECT_THROW(counts.set({0, 1}, -1), std::logic_error);
  run_mesh({.dp = 2, .ep = 2}, [](int rank, Communicator& communicator) {
    const std::vector<std::int64_t> ones{1, 1};
    EXPECT_THROW(exchange_rows(communicator.group(Axis::ep), plan::flat(2), at::zeros({3, 2}),
                               BlockCounts::own(rank, ones, ones), "dispatch"),
                 std::logic_error);
  });
}

TEST(PatternExchange, AFailureNamesPatternPhaseAndPeer) {
  const plan::NodeShape shape = plan::NodeShape::even(4, 2);
  const Pattern halo = plan::make_pattern("halo", shape);
  // Rank 2 stays away; rank 0, its counterpart on the other node, waits for its remote rows.
  const auto errors = testing::collect_mesh_errors({.dp = 4, .ep = 4},
                                                   [&](int rank, Communicator& communicator) {
                                                     if (rank == 2) return;
                                                     const BlockCounts counts = [] {
                                                       BlockCounts all(4);
                                                       for (int s = 0; s < 4; ++s)
                                                         for (int d = 0; d < 4; ++d) all.set({s, d}, 1);
                                                       return all;
                                                     }();
                                                     exchange_rows(communicator.group(Axis::ep), halo, at::ones({4, 2}),
                                                                   counts, "dispatch (micro-batch 3, layer 1)");
                                                   },
                                                   {.timeout = std::chrono::milliseconds(1500)});
  const std::string text = testing::text_of(errors[0]);
  EXPECT_NE(text.find("dispatch (micro-batch 3, layer 1), halo phase remote, "), std::string::npos) << text;
  EXPECT_NE(text.find(" rank 2"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::comm
