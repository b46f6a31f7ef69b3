#include "report/action_kinds.h"

#include <gtest/gtest.h>

#include "report/report_fixture.h"
#include "report/text_table.h"

namespace trireme::report {
namespace {

TEST(ActionKinds, SumOverRanksInOrderOfAppearance) {
  const auto rows = by_kind(small_plan(), small_prediction().ranks);
  ASSERT_EQ(rows.size(), 10u);  // ten actions, no two of a kind
  EXPECT_EQ(rows[0].kind, "forward attention");
  EXPECT_EQ(rows[2].kind, "receive backward");
  EXPECT_EQ(rows[2].total_s, 6);
}

TEST(ActionKinds, TheStripShowsWhatFillsEachCell) {
  // Ten cells of 1 s: rank 0 computes F in [0, 1), B in [6, 8), the optimizer in [9, 10).
  const auto plan = small_plan();
  EXPECT_EQ(compute_strip(plan.stages[0], small_prediction().ranks[0].spans, 10, 10), "F.....BB.o");
  EXPECT_EQ(compute_strip(plan.stages[1], small_prediction().ranks[1].spans, 10, 10), "..FBB.....");
}

TEST(ActionKinds, LaneTimeIsItsActions) {
  EXPECT_EQ(lane_s(small_plan().stages[0], small_prediction().ranks[0].spans, plan::Lane::compute), 4);
}

TEST(TextTable, AlignsItsColumns) {
  TextTable t({"kind", "time"});
  t.add({"a", "1 s"});
  t.add({"longer", "100 ms"});
  EXPECT_EQ(t.text(0), "kind      time\n--------------\na          1 s\nlonger  100 ms\n");
}

TEST(TextTable, ShowsQuantities) {
  EXPECT_EQ(show_seconds(0.0000123), "12 us");
  EXPECT_EQ(show_seconds(0.0123), "12.30 ms");
  EXPECT_EQ(show_seconds(0.523), "523.0 ms");
  EXPECT_EQ(show_seconds(2.5), "2.50 s");
  EXPECT_EQ(show_bytes(1536), "1.5 KiB");
  EXPECT_EQ(show_bytes(3 * 1073741824.0), "3.00 GiB");
  EXPECT_EQ(show_count(31200000), "31.2 M");
  EXPECT_EQ(show_error(8, 10), "-20.0 %");
  EXPECT_EQ(show_error(8, 0), "-");
}

}  // namespace
}  // namespace trireme::report
