#include "plan/all_to_all/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/all_to_all/flat.h"
#include "plan/all_to_all/generators.h"
#include "plan/all_to_all/traffic.h"

namespace trireme::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two nodes of two members: rows for the other node go first to the member of the same place there (2-D hierarchical).
Pattern two_by_two() {
  Pattern p{.name = "by node", .size = 4};
  Phase off{.name = "off-node"}, on{.name = "on-node", .after = {0}};
  for (int m = 0; m < 4; ++m) {
    const int twin = (m + 2) % 4, neighbour = m ^ 1;
    off.transfers.push_back({m, twin, {block(m, twin), block(m, twin ^ 1)}});
    on.transfers.push_back({m, neighbour, {block(m, neighbour), block(twin, neighbour)}});
  }
  p.phases = {off, on};
  return p;
}

TEST(Flat, DeliversEveryBlockAndCountsItsMessages) {
  for (int size : {1, 2, 3, 8, 16}) {
    const Pattern p = flat(size);
    EXPECT_THAT(problems(p), IsEmpty());
    const BlockTable counts(size, std::vector<double>(size * size, 3.0));
    // (p - 1) messages of one block each.
    const LevelTraffic t = traffic(p, 0, NodeShape::one_node(size), counts).total();
    EXPECT_EQ(t.messages, size - 1);
    EXPECT_EQ(t.rows, 3.0 * (size - 1));
  }
}

TEST(Pattern, ATwoPhaseOneIsRightToo) {
  EXPECT_THAT(problems(two_by_two()), IsEmpty());
  EXPECT_THAT(problems(transpose(two_by_two())), IsEmpty());
  // One message off the node instead of two, each of two blocks; then one on the node with two blocks.
  const Traffic t = traffic(two_by_two(), 0, NodeShape::even(4, 2), BlockTable(4, std::vector<double>(16, 1.0)));
  EXPECT_EQ(t.off_node().messages, 1);
  EXPECT_EQ(t.off_node().rows, 2.0);
  EXPECT_EQ(t.on_node().messages, 1);
  EXPECT_EQ(t.on_node().rows, 2.0);
}

TEST(Pattern, NamesWhatIsWrong) {
  Pattern lost = flat(2);
  std::erase_if(lost.phases[0].transfers, [](const Transfer& t) { return t.from == 0 && t.to == 1; });
  EXPECT_THAT(problems(lost), ::testing::ElementsAre("block 0>1 ends at 0"));
  Pattern stolen = flat(3);
  for (Transfer& t : stolen.phases[0].transfers)
    if (t.from == 0 && t.to == 1) t.from = 2;
  EXPECT_THAT(problems(stolen), ::testing::Contains("phase 0: 2 sends block 0>1, which 0 holds"));
  Pattern twice = flat(2);
  twice.phases[0].transfers.push_back({0, 1, {block(0, 1)}});
  EXPECT_THAT(problems(twice),
              ::testing::ElementsAre("phase 0: 0 sends 1 two messages", "phase 0: block 0>1 is sent twice"));
  Pattern early = two_by_two();
  early.phases[1].after.clear();
  EXPECT_THAT(problems(early), ::testing::Contains("phase 1: 0 sends block 2>1, which phase 0 brings"));
  Pattern loop = two_by_two();
  loop.phases[0].after = {1};
  EXPECT_THAT(problems(loop), ::testing::ElementsAre("phase 0: is after phase 1, which is not an earlier one"));
  Pattern split = two_by_two();
  split.phases[1].transfers[0].parcels[1].rows = Rows::once;  // of block 2>1, which came as rows
  EXPECT_THAT(problems(split), ::testing::Contains("phase 1: 0 sends tokens of block 2>1, of which it has less"));
  EXPECT_THROW(make_pattern("fractal", 2), ConfigError);
}

// ceil((N - 1) / 4), two at least.
TEST(Pattern, DedupCrossesInFourTurns) {
  for (const auto& [nodes, at_a_time] : {std::pair{2, 2}, {8, 2}, {9, 2}, {10, 3}, {16, 4}, {128, 32}})
    EXPECT_EQ(make_pattern("dedup", NodeShape::even(2 * nodes, 2)).phases[1].in_flight, at_a_time) << nodes;
}

TEST(Pattern, ReadsAsTheCommentSays) {
  EXPECT_EQ(to_text(make_pattern("dedup", NodeShape::even(4, 2), {.senders = {0, 1}})),
            "dedup, 4 members\n"
            "phase local\n"
            "  0 -> 0 : 0>0:once\n"
            "  0 -> 1 : 0>1:once\n"
            "phase remote, in flight 2\n"
            "  0 -> 2 : 0>2..3:once\n"
            "phase pass on, after remote\n"
            "  0 -> 0 : 2>0:once\n"
            "  0 -> 1 : 2>1:once\n");
  EXPECT_EQ(to_text(pairwise(2)),
            "pairwise, 2 members\n"
            "phase direct, in flight 1\n"
            "  0 -> 0 : 0>0\n"
            "  1 -> 1 : 1>1\n"
            "  0 -> 1 : 0>1\n"
            "  1 -> 0 : 1>0\n");
}

}  // namespace
}  // namespace trireme::plan
