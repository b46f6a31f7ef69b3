// The proof of a plan's order: it is executed, and what waits for itself is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/pipeline/generators.h"
#include "plan/plan.h"
#include "plan/rendezvous.h"

namespace trireme::plan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Plan plan_of(const std::string& schedule, int stages, int micro_batches, int layers = 6) {
  RunSpec run;
  run.model = {.vocab_size = 99,
               .hidden = 32,
               .num_layers = layers,
               .num_dense_layers = layers,
               .dense_ffn = 48,
               .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8}};
  run.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = micro_batches};
  run.layout.schedule = schedule;
  return make_training_plan(run, {.pp = stages});
}

TEST(PlanOrder, EverySchedulesCompletes) {
  for (const std::string& schedule : schedule_names())
    for (const int stages : {1, 2, 3, 5})
      for (const int micro_batches : {stages, 2 * stages, 6 * stages})
        EXPECT_EQ(why_stuck(plan_of(schedule, stages, micro_batches, 2 * stages)), "")
            << schedule << " " << stages << " " << micro_batches;
}

// One queue for both directions, as NCCL has on one communicator: gpipe's stage 0 posts the receive of the first
// gradient while its last forward runs, so it stands before the send of that forward's output. Stage 1 needs this
// output before it begins with the backward whose gradient stage 0 waits for.
TEST(PlanOrder, AnEarlyReceiveOnTheLaneOfASendIsNamed) {
  Plan plan = plan_of("gpipe", 2, 2);
  for (Action& a : plan.stages[0].actions)
    if (a.lane == Lane::backward_receive) a.lane = Lane::forward_send;
  EXPECT_THAT(
      problems(plan),
      ElementsAre("actions wait for one another: stage 0's receive backward mb 0 from stage 1 waits for stage 1's send "
                  "backward "
                  "mb 0 to stage 0, which waits for stage 1's backward attention mb 0 layer 3 behind stage 1's forward "
                  "attention mb 1 layer 3, which waits for stage 1's receive forward mb 1 from stage 0, which waits "
                  "for stage 0's send forward mb 1 to stage 1 behind stage 0's receive backward "
                  "mb 0 from stage 1"));
}

// With both of a V's streams on one lane a send waits behind another whose receiver is not ready: whether that can be
// executed depends on the schedule, and the proof tells which. With two stages there is one neighbour and nothing to
// share; with four, stage 1 has sent micro-batch 5 down the V before micro-batch 1 up, and stage 2 takes 5 after the
// backward of 1, whose forward has not come to the end of the V.
TEST(PlanOrder, TwoStreamsOnALaneAreProvedOrNamed) {
  const auto on_one_lane = [](Plan plan) {
    EXPECT_EQ(why_stuck(plan), "");
    for (StagePlan& stage : plan.stages)
      for (Action& a : stage.actions) {
        if (a.lane == Lane::turned_forward_send) a.lane = Lane::forward_send;
        if (a.lane == Lane::turned_backward_send) a.lane = Lane::backward_send;
        if (a.lane == Lane::turned_forward_receive) a.lane = Lane::forward_receive;
        if (a.lane == Lane::turned_backward_receive) a.lane = Lane::backward_receive;
      }
    return why_stuck(plan);
  };
  for (const char* schedule : {"zero_bubble_v", "dualpipe_v"}) EXPECT_EQ(on_one_lane(plan_of(schedule, 2, 6, 4)), "");
  EXPECT_THAT(on_one_lane(plan_of("zero_bubble_v", 4, 12, 8)),
              HasSubstr("waits for stage 1's send forward mb 1 to stage 0 behind stage 1's send forward mb 5 to stage "
                        "2, which waits for "
                        "stage 2's receive forward mb 5 from stage 1, which waits for stage 2's input_gradient"));
  EXPECT_THAT(on_one_lane(plan_of("dualpipe_v", 6, 18, 12)), HasSubstr("actions wait for one another: stage "));
}

TEST(PlanOrder, AMessageWithoutItsPartnerIsNamed) {
  Plan plan = plan_of("1f1b", 2, 2);
  for (Action& a : plan.stages[1].actions)
    if (a.kind == ActionKind::send) a.peer_stage = 1;
  EXPECT_THAT(why_stuck(plan), HasSubstr("has 1 of 2 members"));
  plan = plan_of("1f1b", 2, 2);
  for (Action& a : plan.stages[1].actions)
    if (a.kind == ActionKind::send) a.group = message_group(1, 7, true);
  EXPECT_THAT(problems(plan), Contains(HasSubstr("is on group backward 1>7, of 2 stages")));
}

TEST(PlanOrder, EachPairAndDirectionHasAGroupOfItsOwn) {
  const auto forward = [](int from, int to) { return message_group(from, to, false); };
  const auto backward = [](int from, int to) { return message_group(from, to, true); };
  EXPECT_THAT(message_groups(plan_of("1f1b", 3, 3)),
              ::testing::UnorderedElementsAre(forward(0, 1), forward(1, 2), backward(1, 0), backward(2, 1)));
  // Round the stages: from the last one back to the first.
  EXPECT_THAT(message_groups(plan_of("interleaved_1f1b", 3, 3)),
              ::testing::UnorderedElementsAre(forward(0, 1), forward(1, 2), forward(2, 0), backward(1, 0),
                                              backward(2, 1), backward(0, 2)));
  // To the turn and back.
  EXPECT_THAT(message_groups(plan_of("zero_bubble_v", 2, 4)),
              ::testing::UnorderedElementsAre(forward(0, 1), forward(1, 0), backward(1, 0), backward(0, 1)));
  const Mesh mesh{.pp = 3, .dp = 2};
  EXPECT_THAT(mesh.group(forward(2, 0), 1), ElementsAre(1, 5));
  EXPECT_THAT(mesh.group(forward(2, 0), 5), ElementsAre(1, 5));
  EXPECT_THAT(mesh.group(forward(2, 0), 3), ElementsAre(3));
  for (const GroupKind& kind : {forward(0, 1), backward(12, 3), world_group, embedding_group, GroupKind(Axis::ep)})
    EXPECT_EQ(nlohmann::json(kind).get<GroupKind>(), kind);
  for (const char* bad : {"forward 0", "forward 0>0", "backward -1>2", "forward 0>1>2", "forward 0>x"})
    EXPECT_THROW(nlohmann::json(bad).get<GroupKind>(), nlohmann::json::exception) << bad;
}

}  // namespace
}  // namespace trireme::plan
