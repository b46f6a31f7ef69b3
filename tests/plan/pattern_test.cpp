#include "plan/all_to_all/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/all_to_all/flat.h"
#include "plan/all_to_all/generators.h"

namespace trireme::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two nodes of two members: rows for the other node go first to the member of the same place there (2-D hierarchical).
Pattern two_by_two() {
  Pattern p{.name = "by node", .size = 4};
  Phase off{.name = "off-node"}, on{.name = "on-node"};
  for (int m = 0; m < 4; ++m) {
    const int twin = (m + 2) % 4, neighbour = m ^ 1;
    off.transfers.push_back({m, twin, {{m, twin}, {m, twin ^ 1}}});
    on.transfers.push_back({m, neighbour, {{m, neighbour}, {twin, neighbour}}});
  }
  p.phases = {off, on};
  return p;
}

TEST(Flat, DeliversEveryBlockAndCountsItsMessages) {
  for (int size : {1, 2, 3, 8, 16}) {
    const Pattern p = flat(size);
    EXPECT_THAT(problems(p), IsEmpty());
    EXPECT_EQ(parse_pattern(to_text(p)), p);
    const std::vector<double> counts(size * size, 3.0);
    // (p - 1) messages of one block each.
    EXPECT_EQ(traffic(p, 0, counts).messages, size - 1);
    EXPECT_EQ(traffic(p, 0, counts).rows, 3.0 * (size - 1));
  }
}

TEST(Pattern, ATwoPhaseOneIsRightToo) {
  EXPECT_THAT(problems(two_by_two()), IsEmpty());
  EXPECT_THAT(problems(transpose(two_by_two())), IsEmpty());
  EXPECT_EQ(parse_pattern(to_text(two_by_two())), two_by_two());
  // One message off the node instead of two, each of two blocks; then one on the node with two blocks.
  EXPECT_EQ(traffic(two_by_two(), 0, std::vector<double>(16, 1.0)).messages, 2);
  EXPECT_EQ(traffic(two_by_two(), 0, std::vector<double>(16, 1.0)).rows, 4.0);
  EXPECT_THAT(counts_needed(two_by_two(), 0, 0),
              ::testing::ElementsAre(Block{0, 2}, Block{0, 3}, Block{2, 0}, Block{2, 1}));
}

TEST(Pattern, NamesWhatIsWrong) {
  Pattern lost = flat(2);
  lost.phases[0].transfers.erase(lost.phases[0].transfers.begin() + 1);  // 0 -> 1
  EXPECT_THAT(problems(lost), ::testing::ElementsAre("block 0>1 ends at 0"));
  Pattern stolen = flat(2);
  stolen.phases[0].transfers[1].from = 1;
  EXPECT_THAT(problems(stolen), ::testing::Contains("phase 0: 1 sends block 0>1, which 0 holds"));
  Pattern twice = flat(2);
  twice.phases[0].transfers.push_back({0, 1, {{0, 1}}});
  EXPECT_THAT(problems(twice), ::testing::ElementsAre("phase 0: block 0>1 is sent twice"));
  EXPECT_THROW(parse_pattern("flat, 2 members\nphase direct\n  0 => 1\n"), ConfigError);
  EXPECT_THROW(make_pattern("fractal", 2), ConfigError);
}

}  // namespace
}  // namespace trireme::plan
