#include "plan/pipeline/generators.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/pipeline/gpipe.h"

namespace trireme::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Megatron's rule for interleaved schedules: groups of pp micro-batches, the last one whole.
bool refused(const std::string& name, int stages, int micro_batches) {
  return name == "interleaved_1f1b" && micro_batches % stages != 0;
}

TEST(Generators, AreRightForEverySize) {
  for (const std::string& name : schedule_names())
    for (int stages = 1; stages <= 16; ++stages)
      for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
        if (refused(name, stages, micro_batches)) {
          EXPECT_THROW(make_schedule(name, stages, micro_batches), ConfigError);
          continue;
        }
        const Schedule s = make_schedule(name, stages, micro_batches);
        ASSERT_THAT(problems(s), IsEmpty()) << to_text(s);
        ASSERT_EQ(s.name, name);
        ASSERT_EQ(s.num_micro_batches, micro_batches);
        ASSERT_EQ(parse_schedule(to_text(s)), s);
      }
}

TEST(Generators, SplitSchedulesAreRightWithTimes) {
  for (const char* name : {"zero_bubble_h1", "zero_bubble_v"})
    for (int stages : {1, 2, 5, 8})
      for (int micro_batches : {1, 2, 7, 16, 33})
        for (const SlotTimes& t :
             {SlotTimes{}, SlotTimes{1, 2, 0.5, 0.25}, SlotTimes{3, 1, 2, 1}, SlotTimes{1, 1, 0, 0}}) {
          const Schedule s =
              make_schedule(name, {.num_stages = stages, .num_micro_batches = micro_batches, .times = {t}});
          ASSERT_THAT(problems(s), IsEmpty()) << to_text(s);
          // No more memory than the schedule without times.
          for (int stage = 0; stage < stages; ++stage)
            EXPECT_LE(peak_in_flight(s, stage), s.num_chunks * stages) << to_text(s);
        }
}

TEST(Generators, InFlightAsPublished) {
  for (int p : {1, 2, 3, 4, 7, 8})
    for (int m : {2 * p, 4 * p, 4 * p + 1})
      for (int stage = 0; stage < p; ++stage) {
        const auto peak = [&](const char* name) { return peak_in_flight(make_schedule(name, p, m), stage); };
        EXPECT_EQ(peak("gpipe"), m);
        EXPECT_EQ(peak("1f1b"), p - stage);        // Narayanan et al. 2021
        EXPECT_EQ(peak("zero_bubble_h1"), p);      // Qi et al. 2023: of the first stage of 1F1B, on every stage
        EXPECT_EQ(peak("zero_bubble_v"), 2 * p);   // the same in halves of a stage
        EXPECT_EQ(peak("dualpipe_v"), 2 * p + 1);  // DualPipe's table: stages of the V + 1
      }
}

// Narayanan et al. 2021: warm-up of 2 (p - 1 - s) + (v - 1) p forwards and one in work; on the first stage that is
// p (1 + (p - 1) / (p v)) whole micro-batches. Merged: one more (MindSpeed's warm-up count).
TEST(Generators, InterleavedAndMergedWarmUpsAsMegatrons) {
  for (int p : {2, 4, 8})
    for (int v : {2, 3, 4})
      for (int stage = 0; stage < p; ++stage) {
        const ScheduleOptions o{.num_stages = p, .num_micro_batches = 4 * p, .num_chunks = v};
        const Schedule interleaved = make_schedule("interleaved_1f1b", o), merged = make_schedule("merged_1f1b", o);
        const auto forwards_first = [&](const Schedule& s) {
          const auto& row = s.rows[stage];
          return std::find_if(row.begin(), row.end(),
                              [](const Slot& x) { return x.kind != SlotKind::forward || x.joined; }) -
                 row.begin();
        };
        const int warm_up = 2 * (p - 1 - stage) + (v - 1) * p;
        EXPECT_EQ(forwards_first(interleaved), warm_up + 1);  // the steady state begins with a forward
        EXPECT_EQ(forwards_first(merged), warm_up + 1);       // and there with a pair
        EXPECT_EQ(peak_in_flight(interleaved, stage), warm_up + 1);
        EXPECT_EQ(peak_in_flight(merged, stage), warm_up + 2);
      }
}

// Megatron-LM's order for 2 stages, 2 chunks, 4 micro-batches: chunk 0 of the first two, chunk 1 of them, then the
// others.
TEST(Generators, PrintTheInterleavedGrid) {
  EXPECT_EQ(to_text(make_schedule("interleaved_1f1b", 2, 4)),
            "interleaved_1f1b, 2 stages, 4 micro-batches, 2 chunks\n"
            "stage 0 | F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3\n"
            "stage 1 | F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3\n");
}

// Megatron's overlap of expert communication without a pipeline: F0, B0 with F1, B1 with F2, ..., B_last.
TEST(Generators, MergedOnOneStage) {
  EXPECT_EQ(to_text(make_schedule("merged_1f1b", 1, 4)),
            "merged_1f1b, 1 stages, 4 micro-batches, 1 chunk\n"
            "stage 0 | F0 F1+B0 F2+B1 F3+B2 B3\n");
}

TEST(Generators, GroupsNeedNotDivideAndErrorsSayWhichWould) {
  // 17 micro-batches on 8 stages: groups of 9 leave 8, a whole pipeline's; of 8 they leave one.
  const Schedule s =
      make_schedule("interleaved_1f1b", {.num_stages = 8, .num_micro_batches = 17, .micro_batch_group = 9});
  EXPECT_THAT(problems(s), IsEmpty());
  EXPECT_EQ(peak_in_flight(s, 0), 2 * 7 + 9 + 1);
  const auto error_of = [](int p, int m, int group, const char* name) {
    try {
      make_schedule(name, {.num_stages = p, .num_micro_batches = m, .num_chunks = 2, .micro_batch_group = group});
    } catch (const ConfigError& e) {
      return e.detail().key + ": " + e.detail().value + ": " + e.detail().allowed;
    }
    return std::string("none");
  };
  EXPECT_EQ(
      error_of(8, 17, 0, "interleaved_1f1b"),
      "layout.micro_batch_group: 8: from 8 stages to 17 micro-batches, leaving no micro-batches over or at least 8: 9 "
      "would do");
  EXPECT_EQ(error_of(8, 17, 18, "merged_1f1b"), error_of(8, 17, 18, "interleaved_1f1b"));
  EXPECT_EQ(error_of(4, 3, 0, "interleaved_1f1b"),
            "layout.micro_batch_group: 4: at least as many micro-batches (3) as stages (4)");
  EXPECT_EQ(error_of(4, 8, 2, "interleaved_1f1b").substr(0, 27), "layout.micro_batch_group: 2");
  for (int p = 1; p <= 6; ++p)
    for (int m = p; m <= 24; ++m)
      for (int group = 1; group <= m + 1; ++group) {
        const bool good = group >= p && group <= m && (m % group == 0 || m % group >= p);
        EXPECT_EQ(error_of(p, m, group, "interleaved_1f1b") == "none", good) << p << " " << m << " " << group;
        if (!good) continue;
        EXPECT_THAT(problems(make_schedule(
                        "interleaved_1f1b",
                        {.num_stages = p, .num_micro_batches = m, .num_chunks = 3, .micro_batch_group = group})),
                    IsEmpty());
      }
}

TEST(Generators, RefuseNumbersOfChunksThatTheyDontHave) {
  const auto key_of = [](const char* name, int chunks) {
    try {
      make_schedule(name, {.num_stages = 2, .num_micro_batches = 4, .num_chunks = chunks});
    } catch (const ConfigError& e) {
      return e.detail().key + " " + e.detail().allowed;
    }
    return std::string("none");
  };
  EXPECT_EQ(key_of("1f1b", 2), "layout.virtual_stages 1 with the schedule 1f1b");
  EXPECT_EQ(key_of("zero_bubble_v", 3), "layout.virtual_stages 2 with the schedule zero_bubble_v");
  EXPECT_EQ(key_of("merged_1f1b", 3), "none");
  EXPECT_EQ(chunks_a_stage("merged_1f1b"), 1);
  EXPECT_EQ(chunks_a_stage("interleaved_1f1b", 1), 2);
  EXPECT_EQ(chunks_a_stage("interleaved_1f1b", 4), 4);
}

TEST(Generators, EvaluationFollowsTheStageMap) {
  for (int p : {1, 2, 3, 8})
    for (int m : {1, 4, 9})
      for (const char* name : {"1f1b", "interleaved_1f1b", "dualpipe_v"}) {
        const Schedule s = forward_only(p, m, chunks_a_stage(name), stage_map(name, p));
        EXPECT_THAT(problems(s), IsEmpty()) << to_text(s);
        EXPECT_EQ(parse_schedule(to_text(s)), s);
      }
}

// Counts of DualPipeV's eight phases as its authors give them, for stage s of p: 2 (p - 1 - s), s + 1, p - 1 - s,
// m - 2p + s + 1, p - 1 - s, s + 1, p - 1 - s, s + 1.
TEST(DualPipeV, HasThePublishedPhases) {
  for (int p : {1, 2, 4, 8})
    for (int m : {2 * p, 2 * p + 3, 5 * p})
      for (int s = 0; s < p; ++s) {
        const Schedule schedule = make_schedule("dualpipe_v", p, m);
        const auto& row = schedule.rows[s];
        std::size_t at = 0;
        // Rounds of the given slots (kind and chunk, joined to the next where marked +) until one doesn't match.
        const auto rounds = [&](const std::vector<std::string>& pattern, int most) {
          int count = 0;
          for (; count < most; ++count) {
            bool same = at + pattern.size() <= row.size();
            for (std::size_t i = 0; same && i < pattern.size(); ++i) {
              const Slot& slot = row[at + i];
              const std::string& want = pattern[i];
              same = static_cast<char>(slot.kind) == want[0] && (want[1] == '*' || slot.chunk == want[1] - '0') &&
                     slot.joined == (want.size() > 2);
            }
            if (!same) break;
            at += pattern.size();
          }
          return count;
        };
        const int behind = p - 1 - s, main = m - 2 * p + s + 1;
        EXPECT_EQ(rounds({"F0"}, 2 * behind), 2 * behind);
        EXPECT_EQ(rounds({"F0", "F1"}, s + 1), s + 1);
        EXPECT_EQ(rounds({"I1", "W1", "F1"}, behind), behind);
        int of_main = 0;
        if (s == p - 1) of_main += rounds({"F0", "B1", "F1+", "B0"}, 1);
        of_main += rounds({"F0+", "B1", "F1+", "B0"}, main);
        EXPECT_EQ(of_main, main);
        EXPECT_EQ(rounds({"B1", "F1+", "B0"}, behind), behind);
        int last_backwards = 0, whole = 0;
        for (; last_backwards < 2 * (s + 1); ++last_backwards, ++at) {
          ASSERT_TRUE(row[at].kind == SlotKind::backward || row[at].kind == SlotKind::input_gradient);
          whole += row[at].kind == SlotKind::backward ? 1 : 0;
        }
        EXPECT_EQ(whole, s + 1);  // the second half is split
        EXPECT_EQ(rounds({"W*", "I0"}, behind), behind);
        EXPECT_EQ(rounds({"W*"}, m), s + 1);
        EXPECT_EQ(at, row.size());
      }
}

// Qi et al. 2023, figure 2: ZB-H1 of 4 stages delays stage s's weight gradients by s micro-batches.
TEST(ZeroBubbleH1, PrintsThePublishedGrid) {
  EXPECT_EQ(to_text(make_schedule("zero_bubble_h1", 3, 4)),
            "zero_bubble_h1, 3 stages, 4 micro-batches, 1 chunk\n"
            "stage 0 | F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3\n"
            "stage 1 | F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3\n"
            "stage 2 | F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3\n");
}

TEST(Generators, SayWhatTheRuntimeCantExecute) {
  EXPECT_EQ(why_not_runnable("gpipe"), "");
  EXPECT_EQ(why_not_runnable("1f1b"), "");
  for (const char* name : {"interleaved_1f1b", "merged_1f1b", "zero_bubble_h1", "zero_bubble_v", "dualpipe_v"})
    EXPECT_THAT(why_not_runnable(name), HasSubstr("the runtime ")) << name;
  EXPECT_THROW(why_not_runnable("zigzag"), ConfigError);
}

}  // namespace
}  // namespace trireme::plan
