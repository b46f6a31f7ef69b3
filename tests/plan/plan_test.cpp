#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <nlohmann/json.hpp>

#include "model/parameters.h"

namespace trireme::plan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunSpec small_run(int layers = 4, int shared_ffn = 0) {
  RunSpec run;
  run.model = {.vocab_size = 99, .hidden = 32, .num_layers = layers, .num_dense_layers = 1, .dense_ffn = 48,
               .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8},
               .moe = {.num_experts = 8, .expert_ffn = 16, .shared_ffn = shared_ffn, .router = {.top_k = 2}}};
  run.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = 48};
  run.layout.bucket_MiB = 0.01;
  return run;
}

int count(const StagePlan& stage, ActionKind kind) {
  int n = 0;
  for (const Action& a : stage.actions) n += a.kind == kind;
  return n;
}

TEST(Plan, IsRightInEveryLayout) {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const Mesh& mesh : {Mesh{1, 1, 1}, Mesh{2, 1, 1}, Mesh{1, 3, 1}, Mesh{1, 2, 2}, Mesh{1, 4, 2}, Mesh{2, 4, 2},
                            Mesh{2, 4, 4}, Mesh{4, 1, 1}, Mesh{4, 8, 8}, Mesh{3, 6, 2}})
      for (const bool tied : {false, true}) {
        RunSpec run = small_run(4, /*shared_ffn=*/tied ? 12 : 0);
        run.model.tied_embeddings = tied;
        run.layout.schedule = schedule;
        const Plan plan = make_training_plan(run, mesh);
        EXPECT_THAT(problems(plan), IsEmpty()) << to_text(plan);
        EXPECT_THAT(problems(make_evaluation_plan(run, mesh, 3)), IsEmpty());
      }
}

TEST(Plan, LowersSeveralChunksAStage) {
  for (const Mesh& mesh : {Mesh{1, 1, 1}, Mesh{2, 2, 2}, Mesh{3, 1, 1}, Mesh{4, 4, 2}})
    for (const int chunks : {2, 3})
      for (const bool tied : {false, true}) {
        RunSpec run = small_run(12);
        run.model.tied_embeddings = tied;
        run.layout.schedule = "interleaved_1f1b";
        run.layout.virtual_stages = chunks;
        const Plan plan = make_training_plan(run, mesh);
        EXPECT_THAT(problems(plan), IsEmpty()) << to_text(plan.schedule);
        EXPECT_THAT(problems(make_evaluation_plan(run, mesh, 5)), IsEmpty());
        // Every piece but the last sends each micro-batch on, unless it is all on one stage.
        int sends = 0;
        for (const StagePlan& stage : plan.stages)
          for (const Action& a : stage.actions) sends += a.kind == ActionKind::send && a.pass == Pass::forward;
        EXPECT_EQ(sends, mesh.pp == 1 ? 0 : plan.num_micro_batches * (mesh.pp * chunks - 1));
      }
}

TEST(Plan, LowersAStageMapAndEmptyPieces) {
  // Five layers on 3 stages of 2 chunks, the fourth piece empty: stage 0 holds pieces 0 and (nothing), 1: 1 and 3, 2: 2 and 4.
  RunSpec run = small_run(5);
  run.layout.schedule = "interleaved_1f1b";
  run.layout.virtual_stages = 2;
  run.layout.stage_layers = {1, 1, 1, 0, 1, 1};
  const Plan plan = make_training_plan(run, {3, 1, 1});
  EXPECT_THAT(problems(plan), IsEmpty());
  EXPECT_EQ(plan.schedule.pieces, (std::vector<std::vector<int>>{{0, -1}, {1, 3}, {2, 4}}));
  for (const Action& a : plan.stages[2].actions)
    if (a.kind == ActionKind::send && a.pass == Pass::forward) {
      EXPECT_EQ(a.peer_stage, 1);
    }

  // A V: the middle of the model is on the last stage, without a message; embedding and head on the first.
  run.layout.stage_layers = {};
  run.layout.schedule = "dualpipe_v";
  const Plan evaluation = make_evaluation_plan(run, {2, 1, 1}, 3);
  EXPECT_THAT(problems(evaluation), IsEmpty());
  EXPECT_TRUE(evaluation.stages[0].chunks[0].embed && evaluation.stages[0].chunks[1].head);
  EXPECT_EQ(count(evaluation.stages[1], ActionKind::receive), 3);
  EXPECT_EQ(count(evaluation.stages[1], ActionKind::send), 3);
}

TEST(PlanProblems, FindAMessageForAnotherPiece) {
  RunSpec run = small_run(4);
  run.layout.schedule = "interleaved_1f1b";
  run.layout.virtual_stages = 2;
  Plan plan = make_training_plan(run, {2, 1, 1});
  for (Action& a : plan.stages[1].actions)
    if (a.kind == ActionKind::receive && a.pass == Pass::forward) {
      a.chunk = 1;  // the first one is of chunk 0, piece 1
      break;
    }
  EXPECT_THAT(problems(plan), Contains(HasSubstr("is for piece 1 of the model, and one for piece 3 is awaited")));
}

TEST(Plan, CountsItsMessages) {
  // pp 2, ep 2, 48 sequences over dp 2 = 24 micro-batches. Stage 0 has layers 0 (dense) and 1 (MoE): per micro-batch one
  // dispatch and one combine in each direction; one send forward, one receive backward.
  const Plan plan = make_training_plan(small_run(), {2, 2, 2});
  EXPECT_EQ(plan.num_micro_batches, 24);
  EXPECT_EQ(count(plan.stages[0], ActionKind::all_to_all), 24 * 4);
  EXPECT_EQ(count(plan.stages[1], ActionKind::all_to_all), 24 * 8);
  EXPECT_EQ(count(plan.stages[0], ActionKind::send), 24);
  EXPECT_EQ(count(plan.stages[0], ActionKind::receive), 24);
  // Stage 0 forward: embed, attention, mlp, attention, experts, combine.
  EXPECT_EQ(count(plan.stages[0], ActionKind::forward), 24 * 6);
  // edp is 1: only dense buckets are reduced.
  for (const Action& a : plan.stages[0].actions) EXPECT_FALSE(a.kind == ActionKind::reduce && a.group == Axis::edp);
}

// Ranks that share sequences hold the same dense parameters, and have tokens of their own; experts lie over all of them.
TEST(Plan, ReducesOverTheRanksThatShareSequencesToo) {
  RunSpec run = small_run();
  for (const auto& [mesh, dense] : {std::pair{Mesh{.pp = 2, .dp = 2, .ep = 2, .cp = 2}, GroupKind(Axis::dp | Axis::cp)},
                                    {Mesh{.pp = 2, .dp = 1, .cp = 2}, GroupKind(Axis::dp | Axis::cp)},
                                    {Mesh{.pp = 2, .dp = 4, .ep = 2}, GroupKind(Axis::dp)}}) {
    const Plan plan = make_training_plan(run, mesh);
    EXPECT_THAT(problems(plan), IsEmpty());
    std::set<GroupKind> reduced;
    for (const Action& a : plan.stages[1].actions) {
      if (a.kind == ActionKind::reduce) reduced.insert(a.group);
      if (a.kind == ActionKind::count_tokens || a.kind == ActionKind::reduce_counts) {
        EXPECT_EQ(a.group, dense);
      }
    }
    EXPECT_EQ(reduced, (std::set<GroupKind>{dense, Axis::edp}));
    EXPECT_EQ(nlohmann::json(plan).get<Plan>(), plan);
  }
  EXPECT_THAT(to_text(make_training_plan(run, {.pp = 2, .dp = 2, .ep = 2, .cp = 2})), HasSubstr("mesh pp 2 x dp 2 x cp 2 (ep 2)\n"));
}

// What an action has waited for when it starts: its own waits, what its lane has done before, and theirs in turn.
std::set<int> waited_for(const StagePlan& stage, int action) {
  std::set<int> all;
  std::vector<int> open = {action};
  while (!open.empty()) {
    const Action& a = stage.actions[open.back()];
    open.pop_back();
    std::vector<int> direct = a.waits;
    for (int i = a.id - 1; i >= 0; --i)
      if (stage.actions[i].lane == a.lane) {
        direct.push_back(i);
        break;
      }
    for (const int wait : direct)
      if (all.insert(wait).second) open.push_back(wait);
  }
  return all;
}

TEST(Plan, TheSharedExpertWaitsForNoMessageOfItsLayer) {
  // Three MoE layers on one stage, one micro-batch: attention, dispatch, shared, experts, combine; and back.
  RunSpec run = small_run(3, /*shared_ffn=*/12);
  run.model.num_dense_layers = 0;
  run.batch.global_batch = 2;
  const Plan plan = make_training_plan(run, {1, 2, 2});
  ASSERT_THAT(problems(plan), IsEmpty());
  const StagePlan& stage = plan.stages[0];
  for (const Plan& p : {plan, make_evaluation_plan(run, {1, 2, 2}, 1)}) {
    std::string forward, backward;
    for (const Action& a : p.stages[0].actions) {
      if (a.layer != 1) continue;
      const std::string name = std::string(a.kind == ActionKind::all_to_all ? ">" : "") + model::name_of(a.segment) + " ";
      (a.pass == Pass::forward ? forward : backward) += name;
    }
    EXPECT_EQ(forward, "attention >dispatch shared experts >combine combine ");
    EXPECT_EQ(backward, p.schedule.forward_only ? "" : "combine >combine shared experts >dispatch attention ");
  }
  int found = 0;
  for (const Action& a : stage.actions) {
    if (a.segment != Segment::shared) continue;
    ++found;
    for (const int id : waited_for(stage, a.id)) {
      const Action& before = stage.actions[id];
      const bool same = before.layer == a.layer && before.pass == a.pass && before.kind == ActionKind::all_to_all;
      EXPECT_FALSE(same) << describe(a) << " waits for " << describe(before);
    }
    // And experts for nothing more than their message: the shared expert's input and output go past it.
    const auto next = std::find_if(stage.actions.begin() + a.id, stage.actions.end(),
                                   [](const Action& other) { return other.segment == Segment::experts; });
    ASSERT_NE(next, stage.actions.end());
    const Action& experts = *next;
    ASSERT_EQ(experts.waits.size(), 1u);
    EXPECT_EQ(stage.actions[experts.waits[0]].kind, ActionKind::all_to_all);
    for (const int buffer : experts.reads) EXPECT_NE(stage.buffers[buffer].segment, Segment::shared);
  }
  EXPECT_EQ(found, 3 * 2);
}

// A plan file of before knows no `to_shared`, and none is written where there is no shared expert: the plan's hash and
// its files are what they were.
TEST(Plan, SaysNothingOfASharedExpertThatIsNotThere) {
  const std::string none = nlohmann::json(make_training_plan(small_run(), {2, 4, 2})).dump();
  EXPECT_EQ(none.find("shared"), std::string::npos);
  const Plan with = make_training_plan(small_run(4, 12), {2, 4, 2});
  EXPECT_EQ(nlohmann::json::parse(nlohmann::json(with).dump()).get<Plan>(), with);
}

TEST(Plan, BucketsHoldEveryParameterOfTheRankOnce) {
  for (const bool tied : {false, true})
    for (const Mesh& mesh : {Mesh{1, 1, 1}, Mesh{2, 2, 2}, Mesh{1, 4, 2}}) {
      RunSpec run = small_run(4, /*shared_ffn=*/tied ? 12 : 0);
      run.model.tied_embeddings = tied;
      double expected = 0;  // model::parameters, experts divided over ep, and the copy of a tied matrix on the last stage
      for (const auto& p : model::parameters(run.model)) expected += double(p.count()) / (p.expert >= 0 ? mesh.ep : 1);
      if (tied && mesh.pp > 1) expected += double(run.model.vocab_size) * run.model.hidden;
      double held = 0;
      for (const StagePlan& stage : make_training_plan(run, mesh).stages)
        for (const Bucket& bucket : stage.buckets) held += bucket.elements;
      EXPECT_EQ(held, expected);
    }
}

TEST(Plan, SurvivesItsJson) {
  const Plan plan = make_training_plan(small_run(), {2, 4, 2});
  const Plan back = nlohmann::json::parse(nlohmann::json(plan).dump()).get<Plan>();
  EXPECT_EQ(back, plan);
  EXPECT_EQ(hash(back), hash(plan));
  RunSpec other = small_run();
  other.layout.schedule = "gpipe";
  EXPECT_NE(hash(make_training_plan(other, {2, 4, 2})), hash(plan));
}

TEST(PlanProblems, SeeEachKindOfFault) {
  const Plan good = make_training_plan(small_run(), {2, 4, 2});
  const auto find = [](StagePlan& stage, ActionKind kind) -> Action& {
    for (Action& a : stage.actions)
      if (a.kind == kind) return a;
    throw std::logic_error("none");
  };
  Plan leak = good;
  find(leak.stages[0], ActionKind::backward).frees.clear();
  EXPECT_THAT(problems(leak), Contains(HasSubstr("is left alive")));

  Plan unwaited = good;  // the send no longer waits for the forward that fills its buffer
  find(unwaited.stages[0], ActionKind::send).waits.clear();
  EXPECT_THAT(problems(unwaited), Contains(HasSubstr("before forward")));

  Plan twice = good;
  Action& backward = find(twice.stages[0], ActionKind::backward);
  backward.frees.push_back(backward.frees.front());
  EXPECT_THAT(problems(twice), Contains(HasSubstr("a second time")));

  Plan unmatched = good;
  find(unmatched.stages[1], ActionKind::receive).mb = 7;
  EXPECT_THAT(problems(unmatched), Contains(HasSubstr("is awaited")));

  Plan early = good;
  find(early.stages[0], ActionKind::reduce).waits.clear();
  EXPECT_THAT(problems(early), Contains(HasSubstr("has added to it")));

  Plan unreduced = good;
  find(unreduced.stages[0], ActionKind::reduce).kind = ActionKind::count_tokens;
  EXPECT_THAT(problems(unreduced), Contains(HasSubstr("is never reduced")));

  Plan order = good;
  find(order.stages[1], ActionKind::reduce_metrics).kind = ActionKind::reduce_counts;
  EXPECT_THAT(problems(order), Contains(HasSubstr("issue different collectives on world")));
}

}  // namespace
}  // namespace trireme::plan
