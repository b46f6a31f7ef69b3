#include "sim/grid/simulate_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/pipeline/generators.h"
#include "plan/pipeline/gpipe.h"
#include "plan/pipeline/one_f_one_b.h"
#include "sim/grid/grid_costs.h"
#include "sim/grid/slow_grid.h"
#include "sim/simulate.h"
#include "sim/slot_plan.h"

namespace trireme::sim {
namespace {

using plan::make_schedule;
using plan::parse_schedule;
using plan::Schedule;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void expect_same(const GridResult& got, const GridResult& want, const std::string& what) {
  const auto near = [&](const std::vector<double>& a, const std::vector<double>& b, const char* name) {
    ASSERT_EQ(a.size(), b.size()) << name << " " << what;
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-9) << name << " " << i << " " << what;
  };
  ASSERT_NEAR(got.makespan_s, want.makespan_s, 1e-9) << what;
  near(got.busy_s, want.busy_s, "busy_s");
  near(got.finish_s, want.finish_s, "finish_s");
  ASSERT_EQ(got.spans.size(), want.spans.size());
  for (std::size_t i = 0; i < got.spans.size(); ++i) {
    ASSERT_NEAR(got.spans[i].start_s, want.spans[i].start_s, 1e-9) << i << " " << what;
    ASSERT_NEAR(got.spans[i].end_s, want.spans[i].end_s, 1e-9) << i << " " << what;
  }
}

TEST(SimulateGrid, AgreesWithTheSlowOneOnRandomCosts) {
  std::mt19937 rng(7);
  GridWorkspace workspace;  // one for all, so that a stale entry would show
  for (const std::string& name : plan::schedule_names())
    for (int p : {1, 2, 3, 5, 8})
      for (int m : {p, 2 * p, 15 * p})
        for (const bool by_micro_batch : {false, true}) {
          const Schedule s = make_schedule(name, p, m);
          GridCosts costs = random_costs(s, rng, by_micro_batch);
          if (m == 2 * p) costs.pair_s.clear(), costs.pair_input_s.clear();
          SlowGrid slow(s, costs);
          ASSERT_TRUE(slow.run());
          const CompiledGrid grid = compile(s);
          const std::string what = to_text(s);
          expect_same(simulate_grid(grid, costs, workspace, /*spans=*/true), slow.result(), what);
          expect_same(simulate_grid(grid, costs, /*spans=*/true), slow.result(), what);
        }
}

TEST(SimulateGrid, AgreesWithTheSlowOneOnGridsWithEmptyPiecesAndPairs) {
  std::mt19937 rng(8);
  const Schedule empty = plan::without_pieces(
      make_schedule("merged_1f1b", {.num_stages = 3, .num_micro_batches = 6, .num_chunks = 3}), {2, 7});
  const Schedule input_pairs = parse_schedule(
      "x, 2 stages, 3 micro-batches, 1 chunk\n"
      "stage 0 | F0 F1 F2+I0 W0 I1 - W1 I2 W2\n"
      "stage 1 | F0 I0+F1 I1 W0 F2 W1 I2 W2\n");
  for (const Schedule& s : {empty, input_pairs})
    for (int repeat = 0; repeat < 20; ++repeat) {
      const GridCosts costs = random_costs(s, rng, repeat % 2 == 0);
      SlowGrid slow(s, costs);
      ASSERT_TRUE(slow.run()) << to_text(s);
      expect_same(simulate_grid(compile(s), costs, true), slow.result(), to_text(s));
    }
}

// The simulator of action lists, with one compute action a slot and receives posted from the start: its messages keep a
// lane of a direction busy.
TEST(SimulateGrid, AgreesWithTheSimulatorOfActions) {
  for (int p : {1, 2, 4, 7})
    for (int m : {1, 3, 8, 20})
      for (const Schedule& s : {plan::gpipe(p, m), plan::one_f_one_b(p, m)}) {
        const SlotPlan actions = slot_plan(s, 1.25, 2.5, 0.4);
        const SimResult want = simulate(actions.plan, actions.costs);
        GridCosts costs = equal_costs(s, {.forward = 1.25, .input_gradient = 1.5, .weight_gradient = 1, .send = 0.4});
        const GridResult got = simulate_grid(compile(s), costs);
        EXPECT_NEAR(got.makespan_s, want.step_s, 1e-9) << to_text(s);
      }
}

// Two stages, stage 1 three times as slow: F 1 and 3, B 2 and 6, three micro-batches, 1F1B. By hand: stage 1 starts at
// 1 and works 27 s without a gap (F0 1-4, B0 4-10, F1 10-13, B1 13-19, F2 19-22, B2 22-28), since its inputs are there;
// stage 0's last backward follows: 28-30. The mean of the stages would give (3 + 1) * 6 = 24.
TEST(SimulateGrid, UnequalStagesAreNotAveraged) {
  const Schedule s = plan::one_f_one_b(2, 3);
  const GridCosts costs{.forward_s = {1, 3}, .backward_s = {2, 6}};
  const GridResult r = simulate_grid(compile(s), costs, /*spans=*/true);
  EXPECT_EQ(r.makespan_s, 30);
  EXPECT_THAT(r.busy_s, ElementsAre(9, 27));
  EXPECT_EQ(r.idle_s(0), 21);
  EXPECT_EQ(r.spans.back(), (plan::Span{22, 28}));
  // A slow micro-batch likewise: only stage 0's second forward takes 10 s. Stage 0: F0 0-1, F1 1-11, then B0 waits for
  // stage 1 (F0 1-2, B0 2-4): B0 11-13, F2 13-14, B1 15-17?, so: stage 1 F1 11-12, B1 12-14, F2 14-15, B2 15-17; stage
  // 0 B1 14-16, B2 17-19.
  const GridCosts slow_one{.forward_s = {1, 10, 1, 1, 1, 1}, .backward_s = {2, 2}};
  EXPECT_EQ(simulate_grid(compile(s), slow_one).makespan_s, 19);
}

TEST(SimulateGrid, MessagesShareALaneOrBlockTheStage) {
  // Two micro-batches through two stages, forwards only; F 1 s, a message 3 s. Lane: stage 1 has its inputs at 4 and
  // 7, ends at 8. Blocking: stage 0 sends 1-4, computes 4-5, sends 5-8; stage 1 ends at 9.
  const Schedule s = plan::forward_only(2, 2);
  GridCosts costs{.forward_s = {1, 1}, .forward_send_s = {3, 3}};
  EXPECT_EQ(simulate_grid(compile(s), costs).makespan_s, 8);
  costs.sends = SendMode::blocking;
  const GridResult r = simulate_grid(compile(s), costs);
  EXPECT_EQ(r.makespan_s, 9);
  EXPECT_THAT(r.busy_s, ElementsAre(2, 2));  // sending is not computing
  EXPECT_THAT(r.finish_s, ElementsAre(8, 9));
}

TEST(SimulateGrid, ThereAreNoMessagesInsideAStage) {
  // A V of one stage: both chunks and their gradients in place.
  const Schedule s = parse_schedule("v, 1 stages, 1 micro-batches, 2 chunks\nstage 0 (0 1) | F0 F0.1 B0.1 B0\n");
  GridCosts costs{
      .forward_s = {1, 1}, .backward_s = {2, 2}, .forward_send_s = {100, 100}, .backward_send_s = {100, 100}};
  EXPECT_EQ(simulate_grid(compile(s), costs).makespan_s, 6);
}

// A million seconds and a microsecond in one sum: float32 would lose the second (its step at 1e6 is 0.06).
TEST(SimulateGrid, TimesAreDoubles) {
  const Schedule s = plan::one_f_one_b(1, 2);
  const GridResult r = simulate_grid(compile(s), {.forward_s = {1e6, 1e-6}, .backward_s = {0}});
  EXPECT_EQ(r.makespan_s, 1e6 + 1e-6);
  EXPECT_GT(r.makespan_s, 1e6);
}

std::string compile_error(const std::string& text) {
  try {
    compile(parse_schedule(text));
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "none";
}

TEST(CompileGrid, RefusesWhatIsNotASchedule) {
  EXPECT_THAT(compile_error("loop, 2 stages, 2 micro-batches, 1 chunk\nstage 0 | F0 B0 F1 B1\nstage 1 | F0 F1 B0 B1\n"),
              HasSubstr("stage 0 can't go on at slot 1 (B0): what it needs is never made"));
  EXPECT_THAT(compile_error("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0\n"), HasSubstr("1 F, 0 B"));
  EXPECT_THAT(compile_error("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 B0 B0\n"), HasSubstr("1 F, 2 B"));
  EXPECT_THAT(compile_error("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 F0 B0\n"), HasSubstr("2 F, 1 B"));
  EXPECT_THAT(compile_error("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 W0 I0\n"),
              HasSubstr("W0 comes before its input gradient"));
  EXPECT_THAT(compile_error("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 B1\n"), HasSubstr("is outside"));
  EXPECT_THAT(compile_error("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0 I0+W0\n"),
              HasSubstr("can't be joined"));
  EXPECT_THAT(compile_error("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 | F0+B0\n"), HasSubstr("its own backward"));
  EXPECT_THAT(compile_error("x, 1 stages, 1 micro-batches, 1 chunk\nstage 0 (1) | F0 B0\n"), HasSubstr("piece 1"));
  EXPECT_THAT(compile_error("x, 1 stages, 1 micro-batches, 1 chunk, forward only\nstage 0 | F0 B0\n"),
              HasSubstr("forward-only"));
}

// Whatever one row is made of, compile and plan::problems agree on whether it is a schedule.
TEST(CompileGrid, AgreesWithTheListOfProblems) {
  std::mt19937 rng(3);
  const auto any = [&](int below) { return std::uniform_int_distribution<int>(0, below - 1)(rng); };
  int right = 0;
  for (int repeat = 0; repeat < 20000; ++repeat) {
    Schedule s = repeat % 2 == 0 ? make_schedule("merged_1f1b", 1 + any(3), 1 + any(3))
                                 : make_schedule("zero_bubble_v", 1 + any(3), 1 + any(3));
    for (int change = any(3); change > 0; --change) {
      auto& row = s.rows[any(s.num_stages)];
      if (row.empty()) continue;
      plan::Slot& slot = row[any(static_cast<int>(row.size()))];
      switch (any(6)) {
        case 0:
          std::swap(slot, row[any(static_cast<int>(row.size()))]);
          break;
        case 1:
          slot.joined = !slot.joined;
          break;
        case 2:
          slot.kind = static_cast<plan::SlotKind>("FBIW-"[any(5)]);
          break;
        case 3:
          slot.mb = any(4) - 1;
          break;
        case 4:
          slot.chunk = any(4) - 1;
          break;
        default:
          row.pop_back();
      }
    }
    const auto found = problems(s);
    std::string refused;
    try {
      compile(s);
    } catch (const ConfigError& e) {
      refused = e.what();
    }
    ASSERT_EQ(refused.empty(), found.empty()) << to_text(s) << (found.empty() ? refused : found.front());
    right += found.empty();
  }
  EXPECT_GT(right, 5000);
  EXPECT_LT(right, 15000);
}

TEST(SimulateGrid, RefusesTablesThatDontFit) {
  const CompiledGrid grid = compile(plan::one_f_one_b(2, 3));
  EXPECT_THROW(simulate_grid(grid, {.forward_s = {1, 1}}), std::logic_error);                           // no backward
  EXPECT_THROW(simulate_grid(grid, {.forward_s = {1, 1, 1}, .backward_s = {1, 1}}), std::logic_error);  // three of two
  EXPECT_THROW(simulate_grid(grid, {.forward_s = {1, -1}, .backward_s = {1, 1}}), std::logic_error);
  EXPECT_THROW(simulate_grid(grid, {.forward_s = {1, 1}, .backward_s = {1, NAN}}), std::logic_error);
}

}  // namespace
}  // namespace trireme::sim
