#include "plan/all_to_all/drawn_tokens.h"

#include <set>

#include <gtest/gtest.h>

namespace trireme::plan {
namespace {

TEST(DrawnTokens, AreAsManyBytesAsAskedFor) {
  const TokenDraw draw{.members = 12, .bytes_per_pair = 4096, .top_k = 6, .experts = 100};
  EXPECT_EQ(draw.per_member(), 9);  // 108 experts
  const DrawnTokens drawn = draw_tokens(draw);
  // 8 rows a pair: 12 x 8 slots of 6 a token are 16 tokens; 4096 x 12 bytes in 96 rows.
  EXPECT_EQ(drawn.tokens, 16);
  EXPECT_EQ(drawn.row_bytes, 512);
  ASSERT_EQ(drawn.experts.size(), 12u);
  for (const auto& tokens : drawn.experts) {
    ASSERT_EQ(tokens.size(), 16u);
    for (const auto& slots : tokens) {
      EXPECT_EQ(std::set<int>(slots.begin(), slots.end()).size(), 6u);  // different experts
      for (const int expert : slots) EXPECT_TRUE(expert >= 0 && expert < 108);
    }
  }
  EXPECT_NE(drawn.experts[0], drawn.experts[1]);
  EXPECT_EQ(draw_tokens(draw).experts, drawn.experts);
}

TEST(DrawnTokens, SmallSizesHaveFewRows) {
  // 4 bytes a pair: one row of one float for each of 4 members, in one token of 4 slots.
  const DrawnTokens drawn = draw_tokens({.members = 4, .bytes_per_pair = 4, .top_k = 4, .experts = 8});
  EXPECT_EQ(drawn.tokens, 1);
  EXPECT_EQ(drawn.row_bytes, 4);
}

}  // namespace
}  // namespace trireme::plan
