#include "plan/pipeline/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/pipeline/generators.h"
#include "plan/pipeline/gpipe.h"
#include "plan/pipeline/one_f_one_b.h"

namespace trireme::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(OneFOneB, PrintsThePublishedGrid) {
  // PipeDream-flush, 4 stages, 5 micro-batches: stage s warms up with 3 - s forwards (Narayanan et al. 2021, figure 3).
  EXPECT_EQ(to_text(one_f_one_b(4, 5)),
            "1f1b, 4 stages, 5 micro-batches, 1 chunk\n"
            "stage 0 | F0 F1 F2 F3 B0 F4 B1 B2 B3 B4\n"
            "stage 1 | F0 F1 F2 B0 F3 B1 F4 B2 B3 B4\n"
            "stage 2 | F0 F1 B0 F2 B1 F3 B2 F4 B3 B4\n"
            "stage 3 | F0 B0 F1 B1 F2 B2 F3 B3 F4 B4\n");
}

TEST(Schedules, NameWhatIsWrong) {
  Schedule missing = gpipe(2, 2);
  missing.rows[1].pop_back();
  EXPECT_THAT(problems(missing), ::testing::Contains(HasSubstr("stage 1: micro-batch 1 chunk 0 has 1 F, 0 B")));

  Schedule early = gpipe(1, 1);
  std::swap(early.rows[0][0], early.rows[0][1]);
  EXPECT_THAT(problems(early), ::testing::Contains("stage 0: B0 comes before its forward"));

  // Stage 0 wants B0 before F1, stage 1 wants F1 before B0: neither can go on.
  const Schedule stuck = parse_schedule("x, 2 stages, 2 micro-batches, 1 chunk\nstage 0 | F0 B0 F1 B1\nstage 1 | F0 F1 B0 B1\n");
  EXPECT_THAT(problems(stuck), ::testing::ElementsAre(HasSubstr("stage 0 can't go on at slot 1 (B0)"),
                                                      HasSubstr("stage 1 can't go on at slot 1 (F1)")));
}

TEST(Schedules, SplitBackwardsParseAndValidate) {
  const Schedule s = parse_schedule("zb, 1 stages, 1 micro-batches, 2 chunk\nstage 0 | F0 F0.1 I0.1 W0.1 I0 W0\n");
  EXPECT_THAT(problems(s), IsEmpty());
  Schedule wrong = s;
  std::swap(wrong.rows[0][2], wrong.rows[0][3]);
  EXPECT_THAT(problems(wrong), ::testing::Contains("stage 0: W0.1 comes before its input gradient"));
}

TEST(Schedules, JoinedSlotsStageMapsAndNoOpsParseAndValidate) {
  // One stage of a V of two chunks: pieces 0 and 1; F1 runs beside the backward of micro-batch 0's second chunk.
  const std::string text =
      "v, 1 stages, 2 micro-batches, 2 chunks\n"
      "stage 0 (0 1) | F0 F0.1 F1+B0.1 - F1.1+B0 B1.1 B1\n";
  const Schedule s = parse_schedule(text);
  EXPECT_THAT(problems(s), IsEmpty());
  EXPECT_EQ(to_text(s), text);
  EXPECT_TRUE(s.rows[0][2].joined);
  EXPECT_FALSE(s.rows[0][3].joined);
  EXPECT_EQ(s.rows[0][4].kind, SlotKind::no_op);
  EXPECT_THAT(s.pieces, ::testing::ElementsAre(::testing::ElementsAre(0, 1)));
  // F0, F0.1, then both of each pair: two forwards of each chunk are never held at once with all of the others.
  EXPECT_EQ(peak_in_flight(s, 0), 3);
}

TEST(Schedules, SayWhichSlotsCantBeJoined) {
  const auto problems_of = [](const std::string& row) {
    return problems(parse_schedule("x, 1 stages, 2 micro-batches, 1 chunk\nstage 0 | " + row + "\n"));
  };
  EXPECT_THAT(problems_of("F0+F1 B0 B1"), ::testing::Contains(HasSubstr("F0+F1 can't be joined")));
  EXPECT_THAT(problems_of("F0 F1 I0+W0 B1"), ::testing::Contains(HasSubstr("I0+W0 can't be joined")));
  EXPECT_THAT(problems_of("F0+B0 F1 B1"), ::testing::Contains("stage 0: F0+B0 joins a forward with its own backward"));
  EXPECT_THAT(problems_of("F0 F1+B0 B1"), IsEmpty());
  EXPECT_THAT(problems_of("F0 B0+F1 B1"), IsEmpty());
  Schedule dangling = gpipe(1, 1);
  dangling.rows[0].back().joined = true;
  EXPECT_THAT(problems(dangling), ::testing::Contains("stage 0: B0 is joined with nothing"));
}

TEST(Schedules, APairThatWaitsForBothItsInputsCanGetStuck) {
  // Each stage wants its pair done first: stage 1's F1 needs stage 0's F1, which is joined with B0, which needs stage 1's
  // B0, which is joined with F1.
  const Schedule s = parse_schedule(
      "x, 2 stages, 2 micro-batches, 1 chunk\nstage 0 | F0 F1+B0 B1\nstage 1 | F0 F1+B0 B1\n");
  EXPECT_THAT(problems(s), ::testing::ElementsAre(HasSubstr("stage 0 can't go on at slot 1 (F1)"),
                                                  HasSubstr("stage 1 can't go on at slot 1 (F1)")));
}

TEST(Schedules, CheckTheStageMap) {
  const auto problems_of = [](const std::string& a, const std::string& b) {
    return problems(parse_schedule("x, 2 stages, 1 micro-batches, 1 chunk\nstage 0 " + a + " | F0 B0\nstage 1 " + b +
                                   " | F0 B0\n"));
  };
  EXPECT_THAT(problems_of("(1)", "(0)"), IsEmpty());
  EXPECT_THAT(problems_of("(0)", "(0)"), ::testing::Contains("stage 1: piece 0 is held twice"));
  EXPECT_THAT(problems_of("(0)", "(7)"), ::testing::Contains("stage 1: piece 7 of a model of 2 pieces"));
  EXPECT_THAT(problems_of("(0 1)", "(2)"), ::testing::Contains("stage 0: pieces of 2 chunks, of 1"));
  EXPECT_THAT(problems_of("(0)", "(-)"), ::testing::Contains("stage 1: F0 is of a chunk that is empty"));
}

TEST(Schedules, DropPiecesAndMicroBatches) {
  // Four pieces on two stages; without piece 2 (stage 0's second chunk) stage 1's second follows its first.
  const Schedule s = without_pieces(make_schedule("interleaved_1f1b", 2, 2), {2});
  EXPECT_THAT(problems(s), IsEmpty()) << to_text(s);
  EXPECT_EQ(num_pieces(s), 3);
  EXPECT_EQ(piece_of(s, 0, 1), -1);
  EXPECT_EQ(piece_of(s, 1, 1), 2);
  EXPECT_EQ(parse_schedule(to_text(s)), s);
  EXPECT_THAT(to_text(s), HasSubstr("stage 0 (0 -) | F0 F1 - - - - B0 B1"));

  // A pair that loses one side runs alone.
  const Schedule merged = make_schedule("merged_1f1b", 1, 3);
  EXPECT_THAT(to_text(merged), HasSubstr("F0 F1+B0 F2+B1 B2"));
  EXPECT_THAT(to_text(first_micro_batches(merged, 2)), HasSubstr("| F0 F1+B0 B1\n"));
}

// A heading may state any numbers. 2^31 - 1 chunks of 3 micro-batches would be 96 GiB of counters; 2^32 + 2 is no 2.
TEST(Schedules, RefuseNumbersThatNoGridHas) {
  const std::string rows = "stage 0 | F0 F1 B0 B1\nstage 1 | F0 B0 F1 B1\n";
  EXPECT_THAT(problems(parse_schedule("1f1b, 2 stages, 2 micro-batches, 2147483647 chunk\n" + rows)),
              ::testing::ElementsAre(HasSubstr("a grid has at most 262144 slots")));
  EXPECT_THAT(problems(parse_schedule("1f1b, 2 stages, 2147483647 micro-batches, 1 chunk\n" + rows)),
              ::testing::ElementsAre(HasSubstr("a grid has at most 262144 slots")));
  EXPECT_THROW(parse_schedule("1f1b, 4294967298 stages, 2 micro-batches, 1 chunk\n" + rows), ConfigError);
}

TEST(Schedules, BadTextNamesTheLine) {
  try {
    parse_schedule("1f1b, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 Q0\n");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_EQ(e.detail().key, "schedule line 2");
    EXPECT_EQ(e.detail().value, "Q0");
    EXPECT_THAT(e.detail().allowed, HasSubstr("in the row of stage 0"));
  }
  EXPECT_THROW(parse_schedule(""), ConfigError);
  for (const char* word : {"F0+", "F0++B1", "F0.", "F-1", "--", "F0+B", "F99999999999"})
    EXPECT_THROW(parse_schedule(std::string("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | ") + word + "\n"), ConfigError)
        << word;
  EXPECT_THROW(parse_schedule("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 (x) | F0 B0\n"), ConfigError);
  EXPECT_THROW(parse_schedule("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 (0 | F0 B0\n"), ConfigError);
  EXPECT_THROW(parse_schedule("1f1b, 2 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 B0\n"), ConfigError);
  EXPECT_THROW(make_schedule("zigzag", 1, 1), ConfigError);
}

}  // namespace
}  // namespace trireme::plan
