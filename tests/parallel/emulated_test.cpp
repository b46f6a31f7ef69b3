// A rehearsal: waits instead of compute, real messages of the planned sizes.
#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "parallel/emulated_routing.h"
#include "parallel/setup.h"
#include "parallel/tiny_run.h"
#include "support/rank_threads.h"

namespace trireme::parallel {
namespace {

using ::testing::HasSubstr;
using testing::tiny_run;

plan::RunSpec short_run() {
  plan::RunSpec run = tiny_run();
  run.batch.micro_batch = 6;
  return run;
}

const plan::StagePlan& stage_of(const plan::Plan& plan, int rank) { return plan.stages[plan.mesh.pp_index(rank)]; }

EmulatedWork equal_waits(const plan::Plan& plan, int rank, double seconds) {
  EmulatedWork work;
  for (const plan::Action& a : stage_of(plan, rank).actions)
    work.wait_s.push_back(a.lane == plan::Lane::compute ? seconds : 0);
  return work;
}

TEST(TimedWait, AChainTakesAtLeastItsSum) {
  TimedWait waits;
  const auto start = TimedWait::Clock::now();
  for (int i = 0; i < 20; ++i) waits.wait(TimedWait::Clock::now(), 1e-3);
  EXPECT_GE(std::chrono::duration<double>(TimedWait::Clock::now() - start).count(), 20e-3);
}

TEST(TimedWait, WhatWasDoneSinceItBeganIsAPartOfIt) {
  TimedWait waits;
  const auto start = TimedWait::Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  waits.wait(start, 1e-3);  // is over: returns at once
  waits.wait(TimedWait::Clock::now(), 0);
  EXPECT_GE(TimedWait::Clock::now() - start, std::chrono::milliseconds(2));
}

TEST(Rehearsal, RunsThePlansMessagesAndTakesAtLeastItsWaits) {
  plan::RunSpec run = short_run();
  const plan::Mesh mesh{.pp = 2, .dp = 2, .ep = 2};
  run.model.tied_embeddings = true;
  const plan::Plan plan = plan::make_training_plan(run, mesh);
  testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
    StageRuntime runtime(run, plan, communicator, rank, equal_waits(plan, rank, 1e-3));
    for (int step = 0; step < 2; ++step) {
      const StepResult result = runtime.step();
      double waited = 0;
      for (const plan::Action& a : stage_of(plan, rank).actions) {
        EXPECT_GE(result.timeline.spans[a.id].end_s, result.timeline.spans[a.id].start_s) << plan::describe(a);
        if (a.lane == plan::Lane::compute) waited += 1e-3;
      }
      EXPECT_GE(result.timeline.step_s, waited);
    }
  });
}

// Four ranks share eight experts, two each, at 48 tokens of two experts: 96 rows. Each rank sends 40, 24, 8, 8, 8, 8, 0 and
// 0 to them, so the four get 4 x 64, 4 x 16, 4 x 16 and none. In odd micro-batches the other way round.
TEST(Rehearsal, RowsFallAsTheLoadSays) {
  plan::RunSpec run = short_run();
  run.batch.global_batch = 48;  // two micro-batches a rank
  plan::Mesh mesh{.pp = 1, .dp = 4, .ep = 4};
  mesh.ranks_of_host = {2, 2};
  const std::vector<std::int64_t> rows = {40, 24, 8, 8, 8, 8, 0, 0};
  for (const std::string pattern : {"flat", "halo", "dedup", "allgather_a2a"}) {
    run.layout.all_to_all = pattern;
    const plan::Plan plan = plan::make_training_plan(run, mesh);
    testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
      EmulatedWork work = equal_waits(plan, rank, 0);
      work.rows_E = [&](int mb, int) { return mb % 2 ? std::vector<std::int64_t>(rows.rbegin(), rows.rend()) : rows; };
      StageRuntime runtime(run, plan, communicator, rank, work);
      const StepResult result = runtime.step();
      int seen = 0;
      for (const plan::Action& a : stage_of(plan, rank).actions) {
        if (a.kind != plan::ActionKind::forward || a.segment != plan::Segment::experts) continue;
        const int place = a.mb % 2 ? 3 - rank : rank;
        EXPECT_EQ(result.expert_rows[a.id], std::vector<double>({256, 64, 64, 0})[place]) << pattern << " " << plan::describe(a);
        ++seen;
      }
      EXPECT_EQ(seen, 2 * 3);  // micro-batches, layers with experts
    });
  }
}

TEST(Rehearsal, AForwardOnlyPlanRunsToo) {
  const plan::RunSpec run = short_run();
  const plan::Mesh mesh{.pp = 2, .dp = 2, .ep = 2};
  const plan::Plan plan = plan::make_evaluation_plan(run, mesh, 2);
  testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
    StageRuntime runtime(run, plan, communicator, rank, equal_waits(plan, rank, 0));
    EXPECT_GT(runtime.step().timeline.step_s, 0);
  });
}

// Halves of a backward are waits like any other: what a plan's actions are called decides nothing.
TEST(Rehearsal, RunsInputAndWeightGradients) {
  const plan::RunSpec run = short_run();
  const plan::Mesh mesh{.pp = 2, .dp = 2, .ep = 2};
  plan::Plan plan = plan::make_training_plan(run, mesh);
  for (plan::StagePlan& stage : plan.stages)
    for (plan::Action& a : stage.actions)
      if (a.kind == plan::ActionKind::backward)
        a.kind = a.mb % 2 ? plan::ActionKind::input_gradient : plan::ActionKind::weight_gradient;
  testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
    StageRuntime runtime(run, plan, communicator, rank, equal_waits(plan, rank, 1e-4));
    EXPECT_GT(runtime.step().timeline.step_s, 0);
  });
}

TEST(Rehearsal, RefusesAPlanOfChunks) {
  const plan::RunSpec run = short_run();
  const plan::Mesh mesh{.pp = 1, .dp = 1, .ep = 1};
  plan::Plan plan = plan::make_training_plan(run, mesh);
  plan.grain = plan::Grain::chunk;
  const auto errors = testing::collect_mesh_errors(mesh, [&](int rank, comm::Communicator& communicator) {
    StageRuntime(run, plan, communicator, rank, equal_waits(plan, rank, 0));
  });
  EXPECT_THAT(testing::text_of(errors[0]), HasSubstr("a plan of chunks is priced and simulated, never executed"));
}

TEST(EmulatedRouting, DealsTheRowsToTokensOfDifferentExperts) {
  const std::vector<std::int64_t> rows = {5, 0, 4, 1, 3, 2};  // 15 = 5 tokens of 3
  const auto routing = dealt_routing(rows, 5, 17);
  EXPECT_EQ(routing->counts_E, rows);
  // Row r of the order belongs to slot order_R[r] = token * 3 + k; rows lie expert by expert.
  std::vector<std::vector<int>> experts_of_token(5);
  std::int64_t row = 0;
  for (std::size_t e = 0; e < rows.size(); ++e)
    for (std::int64_t i = 0; i < rows[e]; ++i, ++row)
      experts_of_token[static_cast<std::size_t>(routing->order_R[row].item<std::int64_t>() / 3)].push_back(static_cast<int>(e));
  for (const auto& experts : experts_of_token) {
    EXPECT_EQ(experts.size(), 3u);
    EXPECT_EQ(std::set<int>(experts.begin(), experts.end()).size(), 3u);
  }
  EXPECT_THROW(dealt_routing({4, 2}, 3, 1), std::logic_error);  // an expert twice for a token
}

}  // namespace
}  // namespace trireme::parallel
