#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/pipeline/generators.h"
#include "plan/plan.h"

namespace trireme::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Plan lowered(const LayoutSpec& layout, const Schedule& schedule) {
  std::vector<Chunk> pieces;
  for (int p = 0; p < num_pieces(schedule); ++p)
    pieces.push_back({.first_layer = p, .num_layers = 1, .embed = p == 0, .head = p + 1 == num_pieces(schedule)});
  return lower_chunks(layout, {.pp = schedule.num_stages, .dp = 1, .ep = 1}, schedule, pieces);
}

// Of a stage: "lane: action", in the list's order.
std::vector<std::string> list_of(const Plan& plan, int stage) {
  std::vector<std::string> out;
  for (const Action& a : plan.stages[stage].actions) out.push_back(std::string(name_of(a.lane)) + ": " + describe(a));
  return out;
}

std::vector<std::string> waits_of(const Plan& plan, int stage, const std::string& action) {
  std::vector<std::string> out;
  for (const Action& a : plan.stages[stage].actions)
    if (describe(a) == action)
      for (const int w : a.waits) out.push_back(describe(plan.stages[stage].actions[w]));
  return out;
}

TEST(ChunkLowering, ASlotIsAnAction) {
  const Plan plan = lowered({.pp = 2, .dp = 1}, make_schedule("1f1b", 2, 2));
  EXPECT_EQ(plan.grain, Grain::chunk);
  EXPECT_THAT(problems(plan), IsEmpty());
  // Stage 0's row is F0 F1 B0 B1. It has no one before it: only gradients come, and only outputs leave.
  EXPECT_THAT(list_of(plan, 0),
              ElementsAre("compute: forward mb 0 chunk 0", "forward_send: send forward mb 0 to stage 1",
                          "compute: forward mb 1 chunk 0", "forward_send: send forward mb 1 to stage 1",
                          "backward_receive: receive backward mb 0 from stage 1", "compute: backward mb 0 chunk 0",
                          "backward_receive: receive backward mb 1 from stage 1", "compute: backward mb 1 chunk 0",
                          "compute: optimizer"));
  // A receive waits for nothing, a slot for its receive, a send for its slot.
  EXPECT_THAT(waits_of(plan, 0, "receive backward mb 0 from stage 1"), IsEmpty());
  EXPECT_THAT(waits_of(plan, 0, "backward mb 0 chunk 0"), ElementsAre("receive backward mb 0 from stage 1"));
  EXPECT_THAT(waits_of(plan, 0, "send forward mb 1 to stage 1"), ElementsAre("forward mb 1 chunk 0"));
  EXPECT_THAT(waits_of(plan, 0, "forward mb 1 chunk 0"), IsEmpty());
}

TEST(ChunkLowering, SplitBackwardsKeepWhatTheWeightsNeed) {
  const Plan plan = lowered({.pp = 1, .dp = 1}, parse_schedule("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 I0 W0\n"));
  EXPECT_THAT(problems(plan), IsEmpty());
  const StagePlan& stage = plan.stages[0];
  ASSERT_EQ(stage.actions.size(), 4u);
  const auto kinds = [&](const std::vector<int>& buffers) {
    std::vector<BufferKind> out;
    for (const int b : buffers) out.push_back(stage.buffers[b].kind);
    return out;
  };
  EXPECT_THAT(kinds(stage.actions[0].allocates), ElementsAre(BufferKind::saved));
  EXPECT_THAT(kinds(stage.actions[1].frees), ElementsAre(BufferKind::saved));
  EXPECT_THAT(kinds(stage.actions[1].allocates), ElementsAre(BufferKind::weight_work));
  EXPECT_THAT(kinds(stage.actions[2].frees), ElementsAre(BufferKind::weight_work));
}

TEST(ChunkLowering, WithoutOverlapTheNextSlotWaitsForTheSends) {
  LayoutSpec layout{.pp = 2, .dp = 1};
  layout.overlap.pipeline = false;
  const Plan plan = lowered(layout, make_schedule("1f1b", 2, 2));
  EXPECT_THAT(waits_of(plan, 0, "forward mb 1 chunk 0"), ElementsAre("send forward mb 0 to stage 1"));
  // Stage 1's row is F0 B0 F1 B1: its last send is the last thing before the optimizer.
  EXPECT_THAT(waits_of(plan, 1, "optimizer"),
              UnorderedElementsAre("backward mb 1 chunk 0", "send backward mb 1 to stage 0"));
}

TEST(ChunkLowering, CopiesAreBesideTheirSlot) {
  LayoutSpec layout{.pp = 2, .dp = 1};
  layout.swap.add(Swap::activations);
  const Plan plan = lowered(layout, make_schedule("1f1b", 2, 2));
  EXPECT_THAT(problems(plan), IsEmpty());
  // Stage 1: F0 B0 F1 B1. F0's copy begins with F0, once its input is there; B0 and its copy in wait for the copy out.
  EXPECT_THAT(waits_of(plan, 1, "swap_out mb 0 chunk 0"), ElementsAre("receive forward mb 0 from stage 0"));
  EXPECT_THAT(waits_of(plan, 1, "backward mb 0 chunk 0"), UnorderedElementsAre("swap_out mb 0 chunk 0"));
  EXPECT_THAT(waits_of(plan, 1, "swap_in mb 0 chunk 0"),
              UnorderedElementsAre("swap_out mb 0 chunk 0", "forward mb 0 chunk 0"));
  EXPECT_THAT(waits_of(plan, 1, "send backward mb 0 to stage 0"),
              UnorderedElementsAre("backward mb 0 chunk 0", "swap_in mb 0 chunk 0"));
  EXPECT_THAT(waits_of(plan, 1, "optimizer"), UnorderedElementsAre("backward mb 1 chunk 0", "swap_in mb 1 chunk 0"));
}

TEST(ChunkLowering, MessagesOfAVsWayBackHaveALaneOfTheirOwn) {
  const Plan plan = lowered({.pp = 3, .dp = 1, .virtual_stages = 2}, make_schedule("zero_bubble_v", 3, 3));
  EXPECT_THAT(problems(plan), IsEmpty());
  for (const Action& a : plan.stages[1].actions) {
    if (a.kind != ActionKind::receive) continue;
    // Forwards come down to the middle stage from stage 0 and back up from stage 2; gradients the other way.
    const bool forward = a.pass == Pass::forward;
    EXPECT_EQ(a.peer_stage, (a.chunk == 0) == forward ? 0 : 2);
    EXPECT_EQ(a.lane, a.chunk == 0 ? (forward ? Lane::forward_receive : Lane::backward_receive)
                                   : (forward ? Lane::turned_forward_receive : Lane::turned_backward_receive));
  }
}

TEST(ChunkLowering, UpdatesFollowTheLastSlotAndBeginInside) {
  LayoutSpec layout{.pp = 1, .dp = 4, .sharding = Sharding::optimizer};
  layout.swap.add(Swap::optimizer);
  const Plan plan = lowered(layout, make_schedule("1f1b", 1, 2));
  EXPECT_THAT(problems(plan), IsEmpty());
  EXPECT_THAT(list_of(plan, 0),
              ElementsAre("dp: gather chunk 0", "compute: forward mb 0 chunk 0", "compute: backward mb 0 chunk 0",
                          "compute: forward mb 1 chunk 0", "dp: reduce chunk 0", "compute: backward mb 1 chunk 0",
                          "dp: reduce", "copy_in: swap_in", "copy: swap_out", "compute: optimizer", "dp: gather"));
  // The part of the reduction that is hidden begins with the last backward.
  EXPECT_THAT(waits_of(plan, 0, "reduce chunk 0"), ElementsAre("forward mb 1 chunk 0"));
  EXPECT_THAT(waits_of(plan, 0, "optimizer"), ElementsAre("swap_in"));
  EXPECT_THAT(waits_of(plan, 0, "gather"), UnorderedElementsAre("optimizer", "swap_out"));

  layout.overlap.gradients = layout.overlap.parameters = false;
  layout.swap = {};
  EXPECT_THAT(list_of(lowered(layout, make_schedule("1f1b", 1, 1)), 0),
              ElementsAre("compute: forward mb 0 chunk 0", "compute: backward mb 0 chunk 0", "dp: reduce",
                          "compute: optimizer", "dp: gather"));
}

TEST(ChunkLowering, SumsOverTheRanksThatShareSequencesToo) {
  LayoutSpec layout{.pp = 1, .dp = 2, .cp = 2, .sharding = Sharding::optimizer};
  int messages = 0;
  for (const Action& a : lowered(layout, make_schedule("1f1b", 1, 2)).stages[0].actions)
    if (a.lane == Lane::dp) {
      EXPECT_EQ(a.group, GroupKind(Axis::dp | Axis::cp));
      ++messages;
    }
  EXPECT_EQ(messages, 4);  // gathered and reduced, a part of each beside a slot
}

TEST(ChunkLowering, AReductionBeforeTheLastGradientIsAProblem) {
  Plan plan = lowered({.pp = 1, .dp = 4}, make_schedule("1f1b", 1, 2));
  for (Action& a : plan.stages[0].actions)
    if (a.kind == ActionKind::reduce && a.chunk < 0) a.waits = {0};
  // Lane order puts it behind the part beside the last backward, which waits for all before: only that one may be missed.
  EXPECT_THAT(problems(plan), ElementsAre("stage 0: gradients are reduced before backward mb 1 chunk 0 has added to them"));
}

}  // namespace
}  // namespace trireme::plan
