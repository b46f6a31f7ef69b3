#include "sim/simulate.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/pipeline/gpipe.h"
#include "plan/pipeline/one_f_one_b.h"
#include "sim/core_sharing.h"
#include "sim/slot_plan.h"

namespace trireme::sim {
namespace {

using plan::gpipe;
using plan::one_f_one_b;

// Huang et al. 2019 and Narayanan et al. 2021: with equal stages and free messages both schedules take
// (micro-batches + stages - 1) (F + B).
TEST(Simulate, BothSchedulesHaveTheirKnownLength) {
  for (const auto& [stages, micro_batches] : {std::pair{1, 1}, {1, 5}, {2, 3}, {4, 8}, {4, 2}, {8, 32}}) {
    const double expected = (micro_batches + stages - 1) * (1.0 + 2.0);
    const SlotPlan g = slot_plan(gpipe(stages, micro_batches), 1, 2, 0);
    EXPECT_NEAR(simulate(g.plan, g.costs).step_s, expected, 1e-9) << "gpipe " << stages << " x " << micro_batches;
    const SlotPlan o = slot_plan(one_f_one_b(stages, micro_batches), 1, 2, 0);
    EXPECT_NEAR(simulate(o.plan, o.costs).step_s, expected, 1e-9) << "1f1b " << stages << " x " << micro_batches;
  }
}

TEST(Simulate, InFlightMicroBatchesAreThoseOfTheSchedule) {
  const SlotPlan g = slot_plan(gpipe(4, 8), 1, 2, 0);
  const SlotPlan o = slot_plan(one_f_one_b(4, 8), 1, 2, 0);
  const SimResult of_g = simulate(g.plan, g.costs), of_o = simulate(o.plan, o.costs);
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(of_g.memory[s].peak_bytes, 8) << s;      // all micro-batches
    EXPECT_EQ(of_o.memory[s].peak_bytes, 4 - s) << s;  // stages - s
  }
}

TEST(Simulate, AMessageAddsItsTimeToTheCriticalPath) {
  // Two stages, one micro-batch: F, message, F, B, message, B.
  const SlotPlan p = slot_plan(gpipe(2, 1), 1, 2, 0.25);
  EXPECT_NEAR(simulate(p.plan, p.costs).step_s, 1 + 0.25 + 1 + 2 + 0.25 + 2, 1e-12);
}

TEST(Simulate, ASharedExpertHidesTheMessagesThatTakeLonger) {
  plan::RunSpec run;
  run.model = {.vocab_size = 50, .hidden = 8, .num_layers = 1, .attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4},
               .moe = {.num_experts = 4, .expert_ffn = 6, .shared_ffn = 6, .router = {.top_k = 2}}};
  run.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = 2};
  const plan::Plan plan = plan::make_training_plan(run, {.pp = 1, .dp = 2, .ep = 2});
  // Forward: attention 1, shared 2, experts 4, combine 1, head 1; twice that backward (the head's is in its forward);
  // all else takes no time. `inside`: the experts compute the shared one, too, as they would after their message.
  const auto step = [&](double message, bool inside) {
    plan::StageCosts costs;
    for (const plan::Action& a : plan.stages[0].actions) {
      const double passes = a.pass == plan::Pass::forward ? 1 : 2;
      double s = 0;
      switch (a.segment) {
        case plan::Segment::attention: s = 1; break;
        case plan::Segment::shared: s = inside ? 0 : 2; break;
        case plan::Segment::experts: s = inside ? 6 : 4; break;
        case plan::Segment::combine: s = 1; break;
        case plan::Segment::head: s = a.pass == plan::Pass::forward ? 1 : 0; break;
        default: break;
      }
      costs.action_s.push_back(a.kind == plan::ActionKind::all_to_all ? message : passes * s);
    }
    return simulate(plan, {.stages = {costs}}, {.memory = false}).step_s;
  };
  // Compute is 3 x 8 + 1, and four messages.
  EXPECT_NEAR(step(0, true), 25, 1e-9);
  EXPECT_NEAR(step(0, false), 25, 1e-9);
  EXPECT_NEAR(step(5, true), 25 + 4 * 5, 1e-9);
  // Dispatch's message of 5 hides the 2 of the shared expert, combine's backward message its 4.
  EXPECT_NEAR(step(5, false), 25 + 4 * 5 - 2 - 4, 1e-9);
  // Of 3 only 3 can hide in the backward.
  EXPECT_NEAR(step(3, false), 25 + 4 * 3 - 2 - 3, 1e-9);
}

TEST(Simulate, SendAndReceiveEndTogetherAndAWaitIsInsideTheSpan) {
  const SlotPlan p = slot_plan(gpipe(2, 1), 1, 2, 0.25);
  const SimResult r = simulate(p.plan, p.costs);
  // Stage 1's first action is the receive: posted at 0, its message comes when stage 0 has computed, 1 to 1.25.
  EXPECT_NEAR(r.spans[1][0].start_s, 0, 1e-12);
  EXPECT_NEAR(r.spans[1][0].end_s, 1.25, 1e-12);
  EXPECT_NEAR(r.spans[0][1].start_s, 1, 1e-12);  // stage 0's send
  EXPECT_NEAR(r.spans[0][1].end_s, 1.25, 1e-12);
}

TEST(Simulate, TwoRanksOnOneCoreTakeTwiceAsLong) {
  // One stage of two data ranks: both compute all the time.
  const SlotPlan p = slot_plan(gpipe(1, 4), 1, 2, 0, 1, 2);
  EXPECT_NEAR(simulate(p.plan, p.costs, {.cores = 1, .threads = 1}).step_s, 2 * 12, 1e-9);
  EXPECT_NEAR(simulate(p.plan, p.costs, {.cores = 2, .threads = 1}).step_s, 12, 1e-9);
  EXPECT_NEAR(simulate(p.plan, p.costs, {.cores = 2, .threads = 2}).step_s, 2 * 12, 1e-9);
}

TEST(Simulate, OnlyRunnableRanksShareCores) {
  // Two stages on one core, one micro-batch: they never compute at the same time, so nothing slows down.
  const SlotPlan p = slot_plan(gpipe(2, 1), 1, 2, 0);
  EXPECT_NEAR(simulate(p.plan, p.costs, {.cores = 1}).step_s, 6, 1e-9);
  // With many, one core does all the work in turn: 2 stages x 4 x (1 + 2) seconds of work.
  const SlotPlan q = slot_plan(gpipe(2, 4), 1, 2, 0);
  EXPECT_NEAR(simulate(q.plan, q.costs, {.cores = 1}).step_s, 24, 1e-9);
}

TEST(Simulate, RanksOfOtherHostsDontShare) {
  const SlotPlan p = slot_plan(gpipe(2, 4), 1, 2, 0);
  EXPECT_NEAR(simulate(p.plan, p.costs, {.cores = 1, .ranks_per_host = 1}).step_s, 5 * 3, 1e-9);
}

TEST(Simulate, TheMeasuredTableReplacesTheFormula) {
  const SlotPlan p = slot_plan(gpipe(1, 4), 1, 2, 0, 1, 2);
  const platform::BusyTable table{.threads = 1, .ranks = {1, 2}, .slow_down = {1, 1.5}, .hand_over_s = {1e-9, 1e-9}};
  EXPECT_NEAR(simulate(p.plan, p.costs, {.cores = 2, .busy = &table}).step_s, 1.5 * 12, 1e-9);
}

TEST(Simulate, ASleepingLaneTakesAMomentToRunOn) {
  // Two stages, one micro-batch, messages free: forward: the send lane wakes (0.1), then stage 1's compute (0.1); backward
  // again both. Receive lanes start at 0 awake.
  const SlotPlan p = slot_plan(gpipe(2, 1), 1, 2, 0);
  const platform::BusyTable table{.threads = 1, .ranks = {1}, .slow_down = {1}, .hand_over_s = {0.1}};
  const double step = simulate(p.plan, p.costs, {.cores = 2, .busy = &table}).step_s;
  EXPECT_NEAR(step, 6 + 4 * 0.1, 1e-9);
}

TEST(Simulate, MessagesUseTheirShareOfACore) {
  // One stage, two lanes: 4 s of compute beside a reduction of 4 s that keeps half a core busy, on one core. Busy ranks
  // 1.5: both progress until the first ends. Compute at 1 / 1.5; the message at 1 / (0.5 + 0.5 * 1.5) = 0.8, so it ends
  // at 5 s, when compute has done 10/3 s; the rest, 2/3 s, runs alone: 5.667 s.
  using namespace plan;
  Plan p{.mesh = {.pp = 1, .dp = 1}};
  StagePlan stage{.chunks = {{.num_layers = 1}}};
  stage.actions = {{.id = 0, .kind = ActionKind::forward},
                   {.id = 1, .kind = ActionKind::reduce, .lane = Lane::dp, .group = Axis::dp}};
  p.stages = {stage};
  const Costs costs{.stages = {{.action_s = {4, 4}, .action_workspace_bytes = {0, 0}}}};
  const SimResult r = simulate(p, costs, {.cores = 1, .communication_core_share = 0.5});
  EXPECT_NEAR(r.spans[0][1].end_s, 5, 1e-9);
  EXPECT_NEAR(r.spans[0][0].end_s, 5 + 2.0 / 3, 1e-9);
}

TEST(Simulate, AThreadThatWouldOnlyWaitForAMessageExecutesIt) {
  // One stage of two ranks: a forward (1 s), an all-to-all (0.5 s) and what needs it (1 s). The compute thread takes the message:
  // nobody wakes. With other work of 1 s in between the message's own thread does (0.1 s), and the last piece, which is
  // ready before its turn, waits for nobody.
  using namespace plan;
  const platform::BusyTable table{.threads = 1, .ranks = {1, 2}, .slow_down = {1, 1}, .hand_over_s = {0.1, 0.1}};
  Plan p{.mesh = {.pp = 1, .dp = 2, .ep = 2}};
  StagePlan stage{.chunks = {{.num_layers = 1}}};
  stage.actions = {{.id = 0, .kind = ActionKind::forward},
                   {.id = 1, .kind = ActionKind::all_to_all, .lane = Lane::ep, .group = Axis::ep, .waits = {0}},
                   {.id = 2, .kind = ActionKind::forward, .waits = {1}}};
  p.stages = {stage};
  const SimulateOptions options{.cores = 2, .busy = &table, .every_rank = true};
  EXPECT_NEAR(simulate(p, {.stages = {{.action_s = {1, 0.5, 1}, .action_workspace_bytes = {0, 0, 0}}}}, options).step_s, 2.5, 1e-12);
  p.stages[0].actions = {{.id = 0, .kind = ActionKind::forward},
                         {.id = 1, .kind = ActionKind::all_to_all, .lane = Lane::ep, .group = Axis::ep, .waits = {0}},
                         {.id = 2, .kind = ActionKind::forward},
                         {.id = 3, .kind = ActionKind::forward, .waits = {1}}};
  const SimResult r = simulate(p, {.stages = {{.action_s = {1, 0.5, 1, 1}, .action_workspace_bytes = {0, 0, 0, 0}}}}, options);
  EXPECT_NEAR(r.spans[0][1].start_s, 1.1, 1e-12);
  EXPECT_NEAR(r.step_s, 3, 1e-12);
}

TEST(Simulate, ACollectiveOverStagesStartsWithItsLastMember) {
  using namespace plan;
  Plan p{.mesh = {.pp = 2, .dp = 1}};
  StagePlan stage{.chunks = {{.num_layers = 1}}};
  stage.actions = {{.id = 0, .kind = ActionKind::forward},
                   {.id = 1, .kind = ActionKind::reduce_metrics, .lane = Lane::dp, .group = plan::world_group, .waits = {0}}};
  p.stages = {stage, stage};
  const StageCosts one{.action_s = {1, 0.5}, .action_workspace_bytes = {0, 0}};
  StageCosts other = one;
  other.action_s[0] = 3;
  const SimResult r = simulate(p, Costs{.stages = {one, other}});
  EXPECT_NEAR(r.spans[0][1].start_s, 1, 1e-12);
  EXPECT_NEAR(r.spans[0][1].end_s, 3.5, 1e-12);
  EXPECT_NEAR(r.spans[1][1].end_s, 3.5, 1e-12);
}

// One stage of two ranks: a forward, then an all-to-all between them.
struct TwoRanks {
  plan::Plan plan{.mesh = {.pp = 1, .dp = 2, .ep = 2}};
  plan::Costs costs{.stages = {{.action_s = {1, 0.5}, .action_workspace_bytes = {0, 0}}}};
  TwoRanks() {
    using namespace plan;
    StagePlan stage{.chunks = {{.num_layers = 1}}};
    stage.actions = {{.id = 0, .kind = ActionKind::forward},
                     {.id = 1, .kind = ActionKind::all_to_all, .lane = Lane::ep, .group = Axis::ep, .waits = {0}}};
    plan.stages = {stage};
  }
};

TEST(Simulate, EveryRankWaitsForItsPartners) {
  // Rank 1 computes for 3 s, rank 0 for 1: both end the exchange at 3 + 0.5, and rank 0 has waited 2 s for it.
  const TwoRanks t;
  const SimResult r = simulate(t.plan, t.costs, {.every_rank = true, .scale = {{1, 1}, {3, 1}}});
  ASSERT_EQ(r.spans.size(), 2u);
  EXPECT_NEAR(r.spans[0][1].start_s, 1, 1e-12);
  EXPECT_NEAR(r.spans[1][1].start_s, 3, 1e-12);
  EXPECT_NEAR(r.spans[0][1].end_s, 3.5, 1e-12);
  EXPECT_NEAR(r.step_s, 3.5, 1e-12);
}

TEST(Simulate, RanksThatAreAlikeTakeAsLongAsOneForAll) {
  for (const auto& schedule : {gpipe(2, 3), one_f_one_b(3, 5)}) {
    const SlotPlan p = slot_plan(schedule, 1, 2, 0.25, 1, 2);
    const SimResult one = simulate(p.plan, p.costs), all = simulate(p.plan, p.costs, {.every_rank = true});
    EXPECT_NEAR(all.step_s, one.step_s, 1e-12);
    EXPECT_EQ(all.spans.size(), one.spans.size() * 2);
    EXPECT_EQ(all.spans[2], one.spans[1]);  // the first rank of stage 1
  }
}

TEST(Simulate, NoiseMakesExchangesWaitForTheSlowest) {
  // Lengths uniform in [0.5, 1.5]: the slower of two takes 0.5 + 2/3 in the mean (the maximum of two uniform draws).
  const TwoRanks t;
  const platform::NoiseTable noise{.factor = {0.5, 1.5}};
  double sum = 0;
  constexpr int samples = 4000;
  for (int i = 0; i < samples; ++i)
    sum += simulate(t.plan, t.costs, {.every_rank = true, .noise = &noise, .seed = static_cast<std::uint64_t>(i)}).step_s - 0.5;
  EXPECT_NEAR(sum / samples, 0.5 + 2.0 / 3, 4 * 0.2357 / std::sqrt(samples));  // standard deviation of that maximum: 0.2357
  // Stretched by half: uniform in [0.75, 1.25].
  EXPECT_NEAR(simulate(t.plan, t.costs, {.every_rank = true, .noise = &noise, .noise_stretch = 0.5, .seed = 7}).step_s - 0.5,
              1 + 0.5 * (simulate(t.plan, t.costs, {.every_rank = true, .noise = &noise, .seed = 7}).step_s - 1.5), 1e-12);
  const SimulateOptions same{.every_rank = true, .noise = &noise, .seed = 7};
  EXPECT_EQ(simulate(t.plan, t.costs, same).step_s, simulate(t.plan, t.costs, same).step_s);
}

TEST(Simulate, NamesTheActionThatCanNeverGoOn) {
  SlotPlan p = slot_plan(gpipe(2, 1), 1, 2, 0);
  p.plan.stages[1].actions[1].waits.push_back(3);  // stage 1's forward after its own last send
  try {
    simulate(p.plan, p.costs);
    FAIL() << "ended";
  } catch (const std::logic_error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("stage 0"));
    EXPECT_THAT(e.what(), testing::HasSubstr("can never go on"));
  }
}

TEST(Simulate, TimelinesRepeatAStageForItsDataRanks) {
  const SlotPlan p = slot_plan(gpipe(2, 2), 1, 2, 0, 1, 3);
  const auto t = timelines(p.plan, simulate(p.plan, p.costs));
  ASSERT_EQ(t.size(), 6u);
  EXPECT_EQ(t[2].spans, t[0].spans);
  EXPECT_NE(t[3].spans, t[0].spans);
  EXPECT_EQ(t[5].rank, 5);
  EXPECT_NEAR(t[5].step_s, 3 * 3, 1e-9);
}

TEST(BusyTable, IsOfTheNearestNumberOfThreads) {
  platform::Host host{.cores = 8, .busy = {{.threads = 8}, {.threads = 2}, {.threads = 1}}};
  EXPECT_EQ(busy_table(host, 8)->threads, 8);
  EXPECT_EQ(busy_table(host, 1)->threads, 1);
  EXPECT_EQ(busy_table(host, 3)->threads, 2);  // 3 / 2 is nearer than 8 / 3
  EXPECT_EQ(busy_table({.cores = 8}, 1), nullptr);
}

TEST(RanksOfMachine, AreThoseOfAllItsHosts) {
  EXPECT_EQ(ranks_of_machine({.cores = 8, .ranks = 4}, 16), 4);
  EXPECT_EQ(ranks_of_machine({.cores = 8}, 16), 16);                                // one host for all
  EXPECT_EQ(ranks_of_machine({.cores = 2, .ranks = 2, .per_machine = 4}, 8), 8);    // namespaces of one machine
  EXPECT_EQ(ranks_of_machine({.cores = 2, .ranks = 2, .per_machine = 4}, 6), 6);
}

TEST(NoiseStretch, MakesTheDistancesThoseOfTheNumberOfRanks) {
  // The quantiles lie 0.5, 0, 0.5 from 1: a third in the mean. 2 ranks vary by a sixth: half as far.
  const platform::NoiseTable noise{.factor = {0.5, 1, 1.5}};
  const platform::BusyTable table{.threads = 1, .ranks = {1, 2, 4}, .slow_down = {1, 1, 2}, .hand_over_s = {1, 1, 1}, .noise = {1. / 12, 1. / 6, 1. / 3}};
  EXPECT_NEAR(distance_from_mean(noise.factor), 1. / 3, 1e-12);
  EXPECT_NEAR(noise_stretch(table, noise, 2), 0.5, 1e-12);
  EXPECT_NEAR(noise_stretch(table, noise, 3), 0.75, 1e-12);
  EXPECT_NEAR(noise_stretch(table, noise, 4), 1, 1e-12);
  EXPECT_NEAR(noise_stretch(table, noise, 16), 1, 1e-12);
  EXPECT_EQ(noise_stretch({.ranks = {1}}, noise, 2), 1);  // nobody measured it
}

TEST(SlowDown, IsLinearBetweenItsPointsAndProportionalBeyond) {
  const platform::BusyTable table{.threads = 1, .ranks = {1, 2, 4}, .slow_down = {1, 1.2, 2.4}, .hand_over_s = {1, 2, 4}};
  EXPECT_DOUBLE_EQ(slow_down(&table, 0.5, 1, 2), 1);
  EXPECT_DOUBLE_EQ(slow_down(&table, 1.5, 1, 2), 1.1);
  EXPECT_DOUBLE_EQ(slow_down(&table, 3, 1, 2), 1.8);
  EXPECT_DOUBLE_EQ(slow_down(&table, 8, 1, 2), 4.8);
  EXPECT_DOUBLE_EQ(slow_down(&table, 4, 2, 4), 2);    // measured for one thread: the formula for two
  EXPECT_DOUBLE_EQ(slow_down(nullptr, 3, 1, 2), 1.5);
  EXPECT_DOUBLE_EQ(slow_down(nullptr, 3, 1, 0), 1);   // devices of their own
  EXPECT_DOUBLE_EQ(hand_over_s(&table, 3), 3);
}

}  // namespace
}  // namespace trireme::sim
