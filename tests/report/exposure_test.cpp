#include "report/exposure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/exposure_tables.h"
#include "report/report_fixture.h"

namespace trireme::report {
namespace {

using plan::ActionKind;
using plan::Lane;
using plan::Pass;
using plan::Segment;
using testing::HasSubstr;

// One stage of two, of four ranks that share experts in pairs. What each action is, and when it ran, lies side by side.
struct Made {
  plan::Plan plan{.mesh = {.pp = 2, .dp = 2, .ep = 2}};
  plan::RankTimeline timeline;

  Made() { plan.stages.resize(2); }
  void add(plan::Action action, double start_s, double end_s) {
    action.id = static_cast<int>(plan.stages[0].actions.size());
    plan.stages[0].actions.push_back(action);
    timeline.spans.push_back({start_s, end_s});
    timeline.step_s = std::max(timeline.step_s, end_s);
  }
  void compute(ActionKind kind, double start_s, double end_s) {
    const bool forward = kind == ActionKind::forward || kind == ActionKind::pair;
    add({.kind = kind, .pass = forward ? Pass::forward : Pass::backward, .segment = Segment::attention}, start_s,
        end_s);
  }
  void dispatch(Pass pass, double start_s, double end_s) {
    add({.kind = ActionKind::all_to_all,
         .pass = pass,
         .segment = Segment::dispatch,
         .lane = Lane::ep,
         .group = Axis::ep},
        start_s, end_s);
  }
  void receive(double start_s, double end_s) {
    add({.kind = ActionKind::receive,
         .pass = Pass::backward,
         .lane = Lane::backward_receive,
         .group = Axis::pp,
         .peer_stage = 1},
        start_s, end_s);
  }
};

// Forward, a dispatch half of which a second forward hides, backward, a dispatch back of which all but one second is
// hidden, a last backward that waits for the other stage.
Made one_f_one_b() {
  Made m;
  m.compute(ActionKind::forward, 0, 2);
  m.dispatch(Pass::forward, 2, 5);
  m.compute(ActionKind::forward, 3, 4);
  m.compute(ActionKind::backward, 5, 7);
  m.dispatch(Pass::backward, 6, 9);
  m.compute(ActionKind::forward, 8, 9);
  m.receive(9, 10);
  m.compute(ActionKind::backward, 10, 11);
  m.timeline.step_s = 12;
  return m;
}

TEST(Exposure, PhasesIdleTimeAndMessages) {
  const Made m = one_f_one_b();
  const RankExposure e = exposure(m.plan, m.timeline);
  // The first backward begins at 5, the last forward ends at 9. Idle: [2, 3), [4, 5), [7, 8), [9, 10), [11, 12).
  EXPECT_EQ(e.phases[0], (PhaseExposure{.length_s = 5,
                                        .compute_s = 3,
                                        .bubble_s = 0,
                                        .messages = {{"all_to_all forward dispatch", Lane::ep, 3, 2}}}));
  EXPECT_EQ(e.phases[1], (PhaseExposure{.length_s = 4,
                                        .compute_s = 3,
                                        .bubble_s = 0,
                                        .messages = {{"all_to_all backward dispatch", Lane::ep, 3, 1}}}));
  EXPECT_EQ(e.phases[2], (PhaseExposure{.length_s = 3,
                                        .compute_s = 1,
                                        .bubble_s = 2,
                                        .messages = {{"receive backward", Lane::backward_receive, 1, 1}}}));
  EXPECT_DOUBLE_EQ(e.phases[0].exposed_all_to_all_fraction(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(e.phases[2].exposed_all_to_all_fraction(), 0);
  EXPECT_DOUBLE_EQ(e.step().exposed_all_to_all_fraction(), 3.0 / 6);
  EXPECT_DOUBLE_EQ(e.step().bubble_fraction(), 2.0 / 12);
  EXPECT_EQ(e.step().idle_s(), 5);
}

TEST(Exposure, IdlePiecesSayWhatIsWaitedFor) {
  const Made m = one_f_one_b();
  EXPECT_EQ(idle_pieces(m.plan, m.timeline), (std::vector<IdlePiece>{{2, 3, "all_to_all forward dispatch"},
                                                                     {4, 5, "all_to_all forward dispatch"},
                                                                     {7, 8, "all_to_all backward dispatch"},
                                                                     {9, 10, "bubble"},
                                                                     {11, 12, "bubble"}}));
}

// A dispatch in [0, 3) and a reduction in [1, 5) of an idle stage that computes in [6, 7) only: both are exposed whole,
// 3 and 4 s; they cover [0, 5), so 1 s of the 6 idle ones is bubble.
TEST(Exposure, MessagesAtTheSameTimeAreExposedEachAndCoverIdleTimeOnce) {
  Made m;
  m.dispatch(Pass::forward, 0, 3);
  m.add({.kind = ActionKind::count_tokens, .lane = Lane::dp, .group = Axis::dp}, 1, 5);
  m.compute(ActionKind::forward, 6, 7);
  const PhaseExposure step = exposure(m.plan, m.timeline).step();
  EXPECT_EQ(step.messages[0].exposed_s, 3);
  EXPECT_EQ(step.messages[1].exposed_s, 4);
  EXPECT_EQ(step.bubble_s, 1);
  EXPECT_EQ(idle_pieces(m.plan, m.timeline),
            (std::vector<IdlePiece>{{0, 3, "all_to_all forward dispatch"}, {3, 5, "count_tokens"}, {5, 6, "bubble"}}));
}

// Whoever is done first waits for the world's last reduction: for other stages. With one stage there are none.
TEST(Exposure, AReductionOverTheWorldIsABubbleOnlyWhereThereAreStages) {
  Made m;
  m.compute(ActionKind::forward, 0, 1);
  m.add({.kind = ActionKind::reduce_metrics, .lane = Lane::dp, .group = plan::world_group}, 1, 4);
  EXPECT_EQ(exposure(m.plan, m.timeline).step().bubble_s, 3);
  m.plan.mesh = {.pp = 1, .dp = 4};
  EXPECT_EQ(exposure(m.plan, m.timeline).step().bubble_s, 0);
}

// Input gradients and joined pairs are backwards; a weight gradient that stands before them is none.
TEST(Exposure, PhasesOfSplitBackwardsAndOfPairs) {
  Made split;
  split.compute(ActionKind::forward, 0, 1);
  split.compute(ActionKind::input_gradient, 1, 2);
  split.compute(ActionKind::forward, 2, 3);
  split.compute(ActionKind::weight_gradient, 3, 4);
  const RankExposure s = exposure(split.plan, split.timeline);
  EXPECT_EQ(s.phases[0].length_s, 1);
  EXPECT_EQ(s.phases[1].length_s, 2);
  EXPECT_EQ(s.phases[2].length_s, 1);
  Made pairs;
  pairs.compute(ActionKind::forward, 0, 1);
  pairs.compute(ActionKind::pair, 1, 3);
  pairs.compute(ActionKind::pair, 3, 5);
  pairs.compute(ActionKind::backward, 5, 6);
  const RankExposure p = exposure(pairs.plan, pairs.timeline);
  EXPECT_EQ(p.phases[0].length_s, 1);
  EXPECT_EQ(p.phases[1].length_s, 4);
  EXPECT_EQ(p.phases[2].length_s, 1);
}

TEST(Exposure, AStepWithoutABackwardIsAllWarmUp) {
  Made m;
  m.compute(ActionKind::forward, 1, 3);
  const RankExposure e = exposure(m.plan, m.timeline);
  EXPECT_EQ(e.phases[0].length_s, 3);
  EXPECT_EQ(e.phases[1].length_s + e.phases[2].length_s, 0);
}

// gpipe with F 1, B 2, three stages, four micro-batches and free messages: the k-th forward of stage s runs from s + k,
// the k-th backward from 6 + 2 (2 - s + k), and the step takes (4 + 2)(1 + 2). Each rank idles (p - 1)(F + B) = 6
// (Huang et al., "GPipe", 2019), all of it bubble, none of it in the steady phase, which is empty.
TEST(Exposure, TheBubbleOfGpipeIsItsClosedForm) {
  for (int s = 0; s < 3; ++s) {
    Made m;
    m.plan.mesh = {.pp = 3};
    for (int k = 0; k < 4; ++k) m.compute(ActionKind::forward, s + k, s + k + 1);
    for (int k = 0; k < 4; ++k) m.compute(ActionKind::backward, 6 + 2 * (2 - s + k), 6 + 2 * (2 - s + k) + 2);
    m.timeline.step_s = 18;
    const RankExposure e = exposure(m.plan, m.timeline);
    EXPECT_EQ(e.step().bubble_s, 6) << s;
    EXPECT_EQ(e.phases[1].length_s, 0) << s;
    EXPECT_EQ(e.phases[0].bubble_s, s + 2 * (2 - s) + (2 - s))
        << s;  // before the forwards; between them and the backwards
  }
}

// What a broken measurement may hold: spans beyond the step, and a step of no length.
TEST(Exposure, SpansBeyondTheStepAreCut) {
  Made m;
  m.compute(ActionKind::forward, 0, 1e300);
  m.receive(-5, 2);
  m.timeline.step_s = 4;
  const PhaseExposure step = exposure(m.plan, m.timeline).step();
  EXPECT_EQ(step.length_s, 4);
  EXPECT_EQ(step.compute_s, 4);
  EXPECT_EQ(step.messages[0].total_s, 2);
  m.timeline.step_s = 0;
  EXPECT_EQ(exposure(m.plan, m.timeline).step(), PhaseExposure{});
}

// Rank 0 of the fixture warms up until 6, of which it computes 1 and is sent for 5; then it waits 1 for its reduction.
// Rank 1 warms up until 3 (2 of them idle) and idles for 5 of the remaining 7.
TEST(Exposure, RanksTogether) {
  const auto ranks = exposures(small_plan(), small_prediction().ranks);
  EXPECT_EQ(of_phase(ranks, PipelinePhase::warm_up).length_s, 6 + 3);
  EXPECT_EQ(of_phase(ranks, PipelinePhase::warm_up).bubble_s, 5 + 2);
  EXPECT_EQ(of_phase(ranks, PipelinePhase::cool_down).bubble_s, 0 + 5);
  EXPECT_EQ(of_step(ranks).length_s, 20);
  EXPECT_DOUBLE_EQ(of_step(ranks).bubble_fraction(), 12.0 / 20);
  const auto json = bubble_fractions(ranks);
  EXPECT_DOUBLE_EQ(json["warm_up"].get<double>(), 7.0 / 9);
  EXPECT_DOUBLE_EQ(json["steady"].get<double>(), 0);
  EXPECT_DOUBLE_EQ(json["step"].get<double>(), 0.6);
}

TEST(Exposure, TablesShowBothSides) {
  const plan::Plan plan = small_plan();
  const auto predicted = exposures(plan, small_prediction().ranks);
  const auto measured = exposures(plan, {{.rank = 0, .spans = small_measurement()[0].spans, .step_s = 12},
                                         {.rank = 1, .spans = small_measurement()[1].spans, .step_s = 12.5}});
  const std::string text = exposure_text({predicted, measured}, "rehearsed");
  EXPECT_THAT(text, testing::ContainsRegex("phase +waits for +predicted +share +rehearsed +share"));
  // Measured: rank 0 idles [2, 7) of 7 and rank 1 [0, 3) of 4 before their first backwards.
  EXPECT_THAT(text, testing::ContainsRegex("warm-up +bubble +7.00 s +77.8 % +8.00 s +72.7 %"));
  // The reduction of rank 0: 1 s, exposed in both.
  EXPECT_THAT(text, testing::ContainsRegex("reduce experts +1.00 s +100.0 % +1.00 s +100.0 %"));
  EXPECT_THAT(text, testing::ContainsRegex("rank +stage +step +rehearsed +warm-up"));
  const auto json = exposure_json({predicted, measured}, "rehearsed");
  EXPECT_EQ(json["phases"][0]["phase"], "step");
  EXPECT_EQ(json["phases"][1]["bubble_s"]["rehearsed"], 8);
  EXPECT_EQ(json["ranks"][1]["phases"][1]["bubble_s"]["predicted"], 2);
  const auto nothing = exposure_json({predicted, {}});
  EXPECT_TRUE(nothing["ranks"][0]["phases"][0]["bubble_s"]["measured"].is_null());
}

}  // namespace
}  // namespace trireme::report
