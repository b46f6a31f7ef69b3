// Published bubbles of every schedule, by executing it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/pipeline/generators.h"
#include "sim/grid/grid_costs.h"

namespace trireme::sim {
namespace {

using plan::make_schedule;
using plan::Schedule;

GridResult run(const Schedule& s, const SlotSeconds& t) {
  return simulate_grid(compile(s), equal_costs(s, t), /*spans=*/true);
}

// Huang et al. 2019, Narayanan et al. 2021: (p - 1)(F + B), which is (p - 1) / (m + p - 1) of all time.
TEST(Bubbles, GpipeAndOneFOneB) {
  for (const char* name : {"gpipe", "1f1b"})
    for (int p : {1, 2, 3, 8, 16})
      for (int m : {1, 2, 5, 32, 63}) {
        const GridResult r = run(make_schedule(name, p, m), {});
        EXPECT_NEAR(r.makespan_s, (m + p - 1) * 3.0, 1e-9) << name << p << " " << m;
        EXPECT_NEAR(r.bubble_fraction(), (p - 1.0) / (m + p - 1), 1e-12) << name << p << " " << m;
      }
}

// Narayanan et al. 2021: (p - 1)(F + B) / v with a stage's F and B; relative to the work (p - 1) / (v m). Here a
// chunk's F + B is 3 / v, so that all v have the work of one stage.
TEST(Bubbles, Interleaved) {
  for (int p : {1, 2, 4, 8, 16})
    for (int v : {2, 3, 4})
      for (int m : {p, 2 * p, 5 * p}) {
        const Schedule s =
            make_schedule("interleaved_1f1b", {.num_stages = p, .num_micro_batches = m, .num_chunks = v});
        const double unit = 1.0 / v;
        const GridResult r = run(s, {.forward = unit, .input_gradient = unit, .weight_gradient = unit});
        EXPECT_NEAR(r.makespan_s / (3 * m) - 1, (p - 1.0) / (v * m), 1e-9) << p << " " << v << " " << m;
      }
}

// Megatron's groups: with more micro-batches a group than stages the bubble is the same, only more is in flight.
TEST(Bubbles, InterleavedInLargerGroups) {
  for (const auto& [p, m, group] : {std::array{4, 9, 5}, {4, 16, 8}, {8, 17, 9}, {2, 7, 7}}) {
    const Schedule s =
        make_schedule("interleaved_1f1b", {.num_stages = p, .num_micro_batches = m, .micro_batch_group = group});
    EXPECT_NEAR(run(s, {}).makespan_s, 3 * (2 * m + p - 1), 1e-9) << p << " " << m << " " << group;
  }
}

// A pair that takes as long as its parts one after another changes nothing: the bubble is interleaved 1F1B's.
TEST(Bubbles, MergedWithoutOverlapIsInterleaved) {
  for (int p : {1, 2, 4, 8})
    for (int v : {2, 4}) {
      const Schedule s = make_schedule("merged_1f1b", {.num_stages = p, .num_micro_batches = 4 * p, .num_chunks = v});
      EXPECT_NEAR(run(s, {}).makespan_s, 3.0 * (4 * p * v + p - 1), 1e-9) << p << " " << v;
    }
}

// With overlap the last stage, which has most pairs (all forwards after its warm-up of (v - 1) p + 1), waits as long as
// before: (p - 1)(F + B); everything between is pairs.
TEST(Bubbles, MergedWithOverlap) {
  for (int p : {1, 2, 4, 8})
    for (int v : {1, 2, 4}) {
      const int m = 4 * p;
      const Schedule s = make_schedule("merged_1f1b", {.num_stages = p, .num_micro_batches = m, .num_chunks = v});
      const int alone = (v - 1) * p + 1;
      const GridResult r = run(s, {.pair = 2.5});
      EXPECT_NEAR(r.makespan_s, 3.0 * (p - 1) + 3.0 * alone + 2.5 * (m * v - alone), 1e-9) << p << " " << v;
    }
}

// Qi et al. 2023, table 1: (p - 1)(F + I - W), a third of 1F1B's with equal times.
TEST(Bubbles, ZeroBubbleH1) {
  for (const auto& [f, i, w] : {std::array{1.0, 1.0, 1.0}, {2.0, 3.0, 1.0}, {3.0, 2.0, 1.0}, {1.5, 1.0, 1.0}})
    for (int p : {1, 2, 4, 8, 16})
      for (int m : {p, 3 * p + 1, 64}) {
        const GridResult r =
            run(make_schedule("zero_bubble_h1", p, m), {.forward = f, .input_gradient = i, .weight_gradient = w});
        EXPECT_NEAR(r.makespan_s, m * (f + i + w) + (p - 1) * (f + i - w), 1e-9) << p << " " << m << " " << f;
      }
}

double idle_inside(const Schedule& s, const GridResult& r) {
  double most = 0;
  std::size_t first = 0;  // slot of the stage's row
  for (int stage = 0; stage < s.num_stages; first += s.rows[stage++].size())
    most = std::max(most, r.finish_s[stage] - r.spans[first].start_s - r.busy_s[stage]);
  return most;
}

// Qi et al. 2023, section 6: with equal times and free messages no stage idles between its first and its last slot; the
// step is longer than the work by the forwards that reach the last stage.
TEST(Bubbles, ZeroBubbleVIsZero) {
  for (int p : {1, 2, 3, 4, 8, 16})
    for (int m : {p, 2 * p, 3 * p + 1, 64}) {
      const Schedule s = make_schedule("zero_bubble_v", p, m);
      const GridResult r = run(s, {});
      EXPECT_NEAR(r.makespan_s, 6.0 * m + p - 1, 1e-9) << p << " " << m;
      if (m >= 2 * p) {
        EXPECT_NEAR(idle_inside(s, r), 0, 1e-9) << p << " " << m;
      }
    }
}

// DualPipe's table: (stages of the V / 2 - 1)(F&B + B - 3W), exact on the last stage (whose first pair is not joined)
// where F = I = W.
TEST(Bubbles, DualPipeV) {
  for (int p : {1, 2, 4, 5, 8})
    for (int m : {2 * p, 5 * p})
      for (double pair : {3.0, 2.5, 2.0}) {
        const GridResult r = run(make_schedule("dualpipe_v", p, m), {.pair = pair});
        EXPECT_NEAR(r.idle_s(p - 1), (p - 1) * (pair + 2 - 3), 1e-9) << p << " " << m << " " << pair;
      }
}

// Placing weight gradients by time is never worse than the order for equal times, and fills what unequal times and
// messages leave open.
TEST(Bubbles, WeightGradientsGoWhereTheGapsAre) {
  std::mt19937 rng(11);
  std::uniform_int_distribution<int> tenths(8, 20);
  for (const char* name : {"zero_bubble_h1", "zero_bubble_v"}) {
    int better = 0;
    for (int repeat = 0; repeat < 40; ++repeat) {
      const int p = std::array{2, 4, 8, 16}[repeat % 4], m = p * (1 + repeat % 5);
      const SlotSeconds t{.forward = tenths(rng) / 10.0,
                          .input_gradient = tenths(rng) / 10.0,
                          .weight_gradient = tenths(rng) / 10.0,
                          .send = repeat % 3 / 10.0};
      const Schedule plain = make_schedule(name, p, m);
      const Schedule timed = make_schedule(name, {.num_stages = p,
                                                  .num_micro_batches = m,
                                                  .times = {{t.forward, t.input_gradient, t.weight_gradient, t.send}}});
      const GridResult a = run(plain, t), b = run(timed, t);
      EXPECT_LE(b.makespan_s, a.makespan_s + 1e-9) << name << p << " " << m;
      better += b.makespan_s < a.makespan_s - 1e-9;
      for (int stage = 0; stage < p; ++stage) EXPECT_LE(plan::peak_in_flight(timed, stage), plain.num_chunks * p);
    }
    // ZB-H1's rows leave few gaps that another place would fill; a V's many.
    EXPECT_GT(better, name == std::string("zero_bubble_v") ? 20 : 0) << name;
  }
}

TEST(Bubbles, EveryScheduleOfEverySizeCanBeExecuted) {
  for (const std::string& name : plan::schedule_names())
    for (int p = 1; p <= 16; ++p)
      for (int m = 1; m <= 64; ++m) {
        if (name == "interleaved_1f1b" && m % p != 0) continue;
        const Schedule s = make_schedule(name, p, m);
        const GridResult r = run(s, {});
        // Every stage has all its work: m micro-batches of 3 s a chunk; and none can be done before the pipe is filled.
        for (double busy : r.busy_s) ASSERT_NEAR(busy, 3.0 * m * s.num_chunks, 1e-9);
        ASSERT_GE(r.makespan_s, 3.0 * m * s.num_chunks + p - 1 - 1e-9) << to_text(s);
      }
}

}  // namespace
}  // namespace trireme::sim
