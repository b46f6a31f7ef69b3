#include "plan/memory_curve.h"

#include <gtest/gtest.h>

namespace trireme::plan {
namespace {

// forward A (saves 10, hands on 4), forward B (reads the 4, saves 6 that hold it), backward B, backward A; 100 constant.
struct Two {
  StagePlan stage;
  StageCosts costs;
  std::vector<Span> spans;
};
Two two_segments() {
  Two t;
  t.stage.buffers = {{.kind = BufferKind::saved}, {.kind = BufferKind::boundary}, {.kind = BufferKind::saved},
                     {.kind = BufferKind::gradient}};
  t.stage.actions = {{.id = 0, .kind = ActionKind::forward, .allocates = {0, 1}},
                     {.id = 1, .kind = ActionKind::forward, .reads = {1}, .allocates = {2}, .frees = {1}},
                     {.id = 2, .kind = ActionKind::backward, .reads = {2}, .allocates = {3}, .frees = {2}},
                     {.id = 3, .kind = ActionKind::backward, .reads = {0, 3}, .frees = {0, 3}}};
  t.costs = {.action_s = {1, 1, 1, 1}, .action_workspace_bytes = {1, 2, 3, 7}, .buffer_bytes = {10, 4, 6, 5},
             .constant_bytes = 100};
  t.spans = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  return t;
}

TEST(MemoryCurve, AddsWhatIsAliveAtEachTime) {
  const Two t = two_segments();
  const MemoryCurve c = memory_curve(t.stage, t.costs, t.spans);
  // forward A: 100 + 10 + 4 + 1 = 115; forward B: 100 + 10 + 4 + 6 + 2 less the 4 that its saved holds = 118;
  // backward B: 100 + 10 + 6 + 5 + 3 = 124; backward A: 100 + 10 + 5 + 7 = 122; then 100.
  const std::vector<MemoryPoint> expected = {{0, 115}, {1, 118}, {2, 124}, {3, 122}, {4, 100}};
  EXPECT_EQ(c.points, expected);
  EXPECT_EQ(c.peak_bytes, 124);
  EXPECT_EQ(c.peak_action, 2);
  EXPECT_EQ(c.peak_time_s, 2);
}

TEST(MemoryCurve, SaysWhatHoldsThePeak) {
  const Two t = two_segments();
  const MemoryCurve c = memory_curve(t.stage, t.costs, t.spans);
  const std::vector<MemoryPart> expected = {{"parameters and optimizer", 100}, {"saved", 16}, {"gradient", 5}, {"workspace", 3}};
  EXPECT_EQ(c.at_peak, expected);
}

TEST(MemoryCurve, OverlappingActionsHoldBothTheirWorkspaces) {
  Two t = two_segments();
  t.stage.actions = {{.id = 0, .kind = ActionKind::backward}, {.id = 1, .kind = ActionKind::reduce, .lane = Lane::dp}};
  t.stage.buffers.clear();
  t.costs = {.action_s = {2, 2}, .action_workspace_bytes = {5, 8}, .constant_bytes = 1};
  t.spans = {{0, 2}, {1, 3}};
  EXPECT_EQ(memory_curve(t.stage, t.costs, t.spans).peak_bytes, 14);
}

TEST(MemoryCurve, AnActionOfNoLengthLeavesNothing) {
  Two t = two_segments();
  t.spans = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
  const MemoryCurve c = memory_curve(t.stage, t.costs, t.spans);
  EXPECT_EQ(c.points.back().bytes, 100);
  EXPECT_EQ(c.peak_bytes, 124);
}

}  // namespace
}  // namespace trireme::plan
