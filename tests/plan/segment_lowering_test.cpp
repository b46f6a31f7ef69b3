// Every schedule at the grain of a segment: chunks, split backwards, a V's way back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "plan/pipeline/generators.h"
#include "plan/plan.h"

namespace trireme::plan {
namespace {

using ::testing::IsEmpty;

// `layers` layers, the first dense; `micro_batches` of each data rank.
RunSpec run_of(const std::string& schedule, int layers, int micro_batches, const Mesh& mesh, bool tied = false) {
  RunSpec run;
  run.model = {.vocab_size = 99,
               .hidden = 32,
               .num_layers = layers,
               .num_dense_layers = 1,
               .dense_ffn = 48,
               .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8},
               .moe = {.num_experts = 8, .expert_ffn = 16, .shared_ffn = tied ? 12 : 0, .router = {.top_k = 2}}};
  run.model.tied_embeddings = tied;
  run.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = std::int64_t{micro_batches} * mesh.dp};
  run.layout.bucket_MiB = 0.01;
  run.layout.schedule = schedule;
  return run;
}

TEST(SegmentLowering, IsRightForEverySchedule) {
  for (const std::string& schedule : schedule_names())
    for (const Mesh& mesh : {Mesh{1, 1, 1}, Mesh{2, 1, 1}, Mesh{1, 2, 2}, Mesh{2, 4, 2}, Mesh{4, 2, 2}, Mesh{3, 2, 1}})
      for (const bool tied : {false, true})
        for (const int micro_batches : {1, 2, 3, 12}) {
          if (schedule == "interleaved_1f1b" && micro_batches % mesh.pp != 0) continue;
          const RunSpec run = run_of(schedule, 9, micro_batches, mesh, tied);
          const Plan plan = make_training_plan(run, mesh);
          EXPECT_THAT(problems(plan), IsEmpty()) << to_text(plan);
          EXPECT_THAT(problems(make_evaluation_plan(run, mesh, micro_batches)), IsEmpty());
        }
}

// What a slot is: one action for each segment of its chunk that computes; of a weight gradient for each that has
// weights, which all but `combine` have.
TEST(SegmentLowering, HasEachSegmentOfEachSlotOnce) {
  for (const char* schedule : {"zero_bubble_h1", "zero_bubble_v", "dualpipe_v", "interleaved_1f1b"}) {
    const Mesh mesh{2, 2, 2};
    const Plan plan = make_training_plan(run_of(schedule, 8, 6, mesh), mesh);
    for (const StagePlan& stage : plan.stages) {
      using Part = std::tuple<int, int, Segment, int>;  // micro-batch, chunk, segment, layer
      std::map<ActionKind, std::multiset<Part>> seen;
      for (const Action& a : stage.actions)
        if (a.segment != Segment::none && a.kind != ActionKind::all_to_all)
          seen[a.kind].insert({a.mb, a.chunk, a.segment, a.layer});
      std::multiset<Part> backwards = seen[ActionKind::backward], weights = seen[ActionKind::backward];
      backwards.merge(std::multiset<Part>(seen[ActionKind::input_gradient]));
      weights.merge(std::multiset<Part>(seen[ActionKind::weight_gradient]));
      EXPECT_EQ(seen[ActionKind::forward], backwards) << schedule;
      std::multiset<Part> weighted;
      for (const Part& part : seen[ActionKind::forward])
        if (std::get<2>(part) != Segment::combine || seen[ActionKind::backward].contains(part)) weighted.insert(part);
      EXPECT_EQ(weighted, weights) << schedule;
      EXPECT_EQ(std::set<Part>(backwards.begin(), backwards.end()).size(), backwards.size()) << schedule;
    }
  }
}

TEST(SegmentLowering, AWeightGradientNeedsWhatItsInputGradientLeft) {
  const Mesh mesh{2, 1, 1};
  const Plan plan = make_training_plan(run_of("zero_bubble_v", 8, 4, mesh), mesh);
  for (const StagePlan& stage : plan.stages) {
    std::map<int, const Action*> maker;  // by buffer
    int weight_gradients = 0;
    for (const Action& a : stage.actions) {
      for (const int b : a.allocates)
        if (stage.buffers[b].kind == BufferKind::weight_work) maker[b] = &a;
      if (a.kind != ActionKind::weight_gradient) continue;
      ++weight_gradients;
      ASSERT_EQ(a.reads.size(), 1u);
      EXPECT_EQ(a.reads, a.frees);
      const Action& from = *maker.at(a.reads[0]);
      EXPECT_EQ(from.kind, ActionKind::input_gradient);
      EXPECT_EQ(std::tie(from.mb, from.chunk, from.segment, from.layer), std::tie(a.mb, a.chunk, a.segment, a.layer));
      EXPECT_TRUE(a.allocates.empty());
    }
    EXPECT_EQ(weight_gradients, static_cast<int>(maker.size()));
  }
}

// A batch is needed until the last input gradient of its micro-batch, and not for the weight gradients that come later.
TEST(SegmentLowering, FreesABatchBeforeTheWeightGradients) {
  const Mesh mesh{2, 1, 1};
  const Plan plan = make_training_plan(run_of("zero_bubble_h1", 4, 4, mesh), mesh);
  for (const StagePlan& stage : plan.stages)
    for (const Action& a : stage.actions)
      for (const int b : a.frees)
        if (stage.buffers[b].kind == BufferKind::batch) {
          EXPECT_EQ(a.kind, ActionKind::input_gradient);
        }
}

// Three stages, six pieces of a V: 0 and 5 on stage 0, 1 and 4 on stage 1, 2 and 3 on stage 2, whose turn needs no
// message. Stage 1 has piece 1's input from stage 0 and piece 4's from stage 2, and the gradients the other way round.
TEST(SegmentLowering, GivesAVsWayBackLanesOfItsOwn) {
  const Mesh mesh{3, 1, 1};
  for (const char* schedule : {"zero_bubble_v", "dualpipe_v"}) {
    const Plan plan = make_training_plan(run_of(schedule, 6, 6, mesh), mesh);
    std::map<int, std::map<std::tuple<Lane, int>, int>> messages;  // by stage: lane and peer
    for (int s = 0; s < 3; ++s)
      for (const Action& a : plan.stages[s].actions)
        if (a.kind == ActionKind::send || a.kind == ActionKind::receive) ++messages[s][{a.lane, a.peer_stage}];
    using Lanes = std::map<std::tuple<Lane, int>, int>;
    EXPECT_EQ(messages[0], (Lanes{{{Lane::forward_send, 1}, 6},
                                  {{Lane::forward_receive, 1}, 6},
                                  {{Lane::backward_send, 1}, 6},
                                  {{Lane::backward_receive, 1}, 6}}));
    EXPECT_EQ(messages[1], (Lanes{{{Lane::forward_receive, 0}, 6},
                                  {{Lane::forward_send, 2}, 6},
                                  {{Lane::turned_forward_receive, 2}, 6},
                                  {{Lane::turned_forward_send, 0}, 6},
                                  {{Lane::backward_receive, 2}, 6},
                                  {{Lane::backward_send, 0}, 6},
                                  {{Lane::turned_backward_receive, 0}, 6},
                                  {{Lane::turned_backward_send, 2}, 6}}));
    EXPECT_EQ(messages[2], (Lanes{{{Lane::forward_receive, 1}, 6},
                                  {{Lane::forward_send, 1}, 6},
                                  {{Lane::backward_receive, 1}, 6},
                                  {{Lane::backward_send, 1}, 6}}));
  }
}

// Gradients of the last stage's second chunk are complete before those of its first: their buckets need not wait for
// these.
TEST(SegmentLowering, ReducesAChunksGradientsWhenTheyAreComplete) {
  const Mesh mesh{2, 2, 1};
  const Plan plan = make_training_plan(run_of("interleaved_1f1b", 8, 4, mesh), mesh);
  const StagePlan& stage = plan.stages[1];
  int first_reduction = -1, last_backward = -1;
  for (const Action& a : stage.actions) {
    if (a.kind == ActionKind::reduce && first_reduction < 0) first_reduction = a.id;
    if (a.kind == ActionKind::backward) last_backward = a.id;
  }
  EXPECT_LT(first_reduction, last_backward);
}

}  // namespace
}  // namespace trireme::plan
