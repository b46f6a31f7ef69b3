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

TEST(OneFOneB, HoldsAtMostTheStagesThatFollow) {
  // In flight on stage s: stages - s, or all micro-batches where those are fewer.
  for (int stages : {1, 2, 3, 7})
    for (int micro_batches : {1, 2, 5, 16})
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(peak_in_flight(one_f_one_b(stages, micro_batches), stage), std::min(stages - stage, micro_batches));
        EXPECT_EQ(peak_in_flight(gpipe(stages, micro_batches), stage), micro_batches);
      }
}

TEST(Schedules, AreRightForEverySize) {
  for (const std::string& name : schedule_names())
    for (int stages : {1, 2, 3, 5, 8})
      for (int micro_batches : {1, 2, 3, 8, 17}) {
        const Schedule s = make_schedule(name, stages, micro_batches);
        EXPECT_THAT(problems(s), IsEmpty()) << to_text(s);
        EXPECT_EQ(parse_schedule(to_text(s)), s);
      }
  EXPECT_THAT(problems(forward_only(3, 4)), IsEmpty());
  EXPECT_EQ(parse_schedule(to_text(forward_only(3, 4))), forward_only(3, 4));
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

TEST(Schedules, BadTextNamesTheLine) {
  try {
    parse_schedule("1f1b, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 Q0\n");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_EQ(e.detail().key, "schedule line 2");
    EXPECT_EQ(e.detail().value, "Q0");
  }
  EXPECT_THROW(parse_schedule(""), ConfigError);
  EXPECT_THROW(parse_schedule("1f1b, 2 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 B0\n"), ConfigError);
  EXPECT_THROW(make_schedule("zigzag", 1, 1), ConfigError);
}

}  // namespace
}  // namespace trireme::plan
