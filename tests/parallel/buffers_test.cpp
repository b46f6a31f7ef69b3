// The plan's buffers and gradient buckets on one rank.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "parallel/buffer_table.h"
#include "parallel/setup.h"
#include "parallel/tiny_run.h"
#include "support/rank_threads.h"

namespace trireme::parallel {
namespace {

using ::testing::HasSubstr;

std::string bug_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "no bug";
}

plan::StagePlan two_buffers() {
  plan::StagePlan stage;
  stage.buffers = {{.kind = plan::BufferKind::boundary, .segment = model::Segment::attention, .mb = 1, .layer = 2},
                   {.kind = plan::BufferKind::saved, .segment = model::Segment::experts, .mb = 1, .layer = 2}};
  return stage;
}

TEST(BufferTable, HoldsWhatIsPutUntilItIsFreed) {
  const plan::StagePlan stage = two_buffers();
  BufferTable table(stage);
  nn::Boundary boundary;
  boundary.x_TD = at::ones({2, 2});
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(boundary.x_TD.storage().getWeakStorageImpl());
  table.put(0, std::move(boundary));
  EXPECT_TRUE(table.boundary({.reads = {0}}, plan::BufferKind::boundary).x_TD.equal(at::ones({2, 2})));
  EXPECT_THAT(table.alive(), ::testing::ElementsAre(0));
  boundary = {};
  table.free({0});
  EXPECT_THAT(table.alive(), ::testing::IsEmpty());
  EXPECT_TRUE(storage.expired());
}

TEST(BufferTable, WhatAnActionReadsComesTogether) {
  plan::StagePlan stage = two_buffers();
  stage.buffers[1] = stage.buffers[0];
  stage.buffers[1].to_shared = true;
  BufferTable table(stage);
  const plan::Action writer{.allocates = {0, 1}}, reader{.reads = {0, 1}};
  const int rest = table.allocated_by(writer, plan::BufferKind::boundary);
  const int to_shared = table.allocated_by(writer, plan::BufferKind::boundary, /*to_shared=*/true);
  EXPECT_EQ(rest, 0);
  EXPECT_EQ(to_shared, 1);
  nn::Boundary x, normed;
  x.x_TD = at::ones({2, 2});
  normed.normed_TD = at::zeros({2, 2});
  table.put(rest, x);
  table.put(to_shared, normed);
  const nn::Boundary both = table.boundary(reader, plan::BufferKind::boundary);
  EXPECT_TRUE(both.x_TD.is_same(x.x_TD) && both.normed_TD.is_same(normed.normed_TD));
  EXPECT_FALSE(table.boundary(reader, plan::BufferKind::gradient).x_TD.defined());
  table.free({1});
  table.put(to_shared, x);
  EXPECT_THAT(bug_of([&] { table.boundary(reader, plan::BufferKind::boundary); }), HasSubstr("two boundaries have"));
}

TEST(BufferTable, MisuseNamesTheBuffer) {
  const plan::StagePlan stage = two_buffers();
  BufferTable table(stage);
  EXPECT_THAT(bug_of([&] { table.boundary({.reads = {0}}, plan::BufferKind::boundary); }),
              HasSubstr("boundary attention mb 1 layer 2 is read but not allocated"));
  EXPECT_THAT(bug_of([&] { table.free({1}); }), HasSubstr("saved experts mb 1 layer 2 is freed but not allocated"));
  table.put(0, nn::Boundary{});
  EXPECT_THAT(bug_of([&] { table.put(0, nn::Boundary{}); }), HasSubstr("allocated twice"));
  EXPECT_THAT(bug_of([&] { table.batch(0); }), HasSubstr("holds something else"));
  EXPECT_EQ(table.read_by({.reads = {0, 1}}, plan::BufferKind::saved), 1);
  EXPECT_EQ(table.read_by({.reads = {0}}, plan::BufferKind::saved), -1);
}

TEST(GradientBuckets, GradientsAreViewsOfTheBucketsOfThePlan) {
  plan::RunSpec run = testing::tiny_run();
  const plan::Mesh mesh{.pp = 2, .dp = 2, .ep = 2};
  const plan::Plan plan = plan::make_training_plan(run, mesh);
  for (const int rank : {0, 3}) {
    const auto model = make_model(run, plan, rank);
    const auto buckets = make_buckets(run, plan, rank, *model);
    const auto& stage = plan.stages[mesh.pp_index(rank)];
    ASSERT_EQ(buckets->size(), static_cast<int>(stage.buckets.size()));
    ASSERT_GT(buckets->size(), 2) << "the test wants several";
    std::set<const nn::Parameter*> seen;
    for (int b = 0; b < buckets->size(); ++b) {
      double elements = 0;
      for (const nn::Parameter* p : buckets->parameters(b)) {
        EXPECT_TRUE(seen.insert(p).second);
        EXPECT_EQ(p->expert, stage.buckets[b].expert);
        EXPECT_EQ(p->grad.scalar_type(), at::kFloat);
        EXPECT_TRUE(p->grad.storage().is_alias_of(buckets->flat(b).storage()));
        elements += static_cast<double>(p->value.numel());
        p->grad.fill_(1.0);
      }
      EXPECT_EQ(elements, stage.buckets[b].elements) << "bucket " << b << " of rank " << rank;
      // No overlap: as many ones as elements.
      EXPECT_EQ(buckets->flat(b).sum().item<float>(), static_cast<float>(elements));
    }
    EXPECT_EQ(seen.size(), model->parameters().size());
    buckets->zero();
    for (const nn::Parameter* p : model->parameters()) EXPECT_EQ(p->grad.abs().sum().item<float>(), 0.0f);
  }
}

TEST(GradientBuckets, ReduceInAnotherTypeRoundsTheMessage) {
  // 1 + 2^-10 has too many bits for bfloat16 (8): each message becomes 1.0 exactly, the sum over two ranks 2.0.
  plan::RunSpec run = testing::tiny_run();
  const plan::Mesh mesh{.pp = 1, .dp = 2, .ep = 1};
  for (const DType reduce : {DType::float32, DType::bfloat16}) {
    run.device.reduce_dtype = reduce;
    const plan::Plan plan = plan::make_training_plan(run, mesh);
    testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
      const auto model = make_model(run, plan, rank);
      const auto buckets = make_buckets(run, plan, rank, *model);
      for (nn::Parameter* p : buckets->parameters(0)) p->grad.fill_(1.0 + 1.0 / 1024);
      buckets->reduce(0, communicator.group(Axis::dp), "reduce bucket 0");
      const float expected = reduce == DType::float32 ? 2.0f + 2.0f / 1024 : 2.0f;
      for (nn::Parameter* p : buckets->parameters(0))
        EXPECT_TRUE(p->grad.eq(expected).all().item<bool>()) << p->name << " " << p->grad.min();
    });
  }
}

TEST(HostedBy, LayersOfTheStageAndABlockOfExperts) {
  // 4 layers on 2 stages; 8 experts on ep 2: rank = pp_index * dp + edp_index * ep + ep_index (plan/mesh.h).
  plan::RunSpec run = testing::tiny_run();
  const plan::Plan plan = plan::make_training_plan(run, {.pp = 2, .dp = 4, .ep = 2});
  const nn::Hosted first = hosted_by(run, plan, 0), last = hosted_by(run, plan, 7);
  EXPECT_TRUE(first.layers.embed && !first.layers.head && last.layers.head && !last.layers.embed);
  EXPECT_EQ(first.layers.first_layer, 0);
  EXPECT_EQ(first.layers.num_layers, 2);
  EXPECT_EQ(last.layers.first_layer, 2);
  EXPECT_THAT(first.experts, ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(last.experts, ::testing::ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(hosted_by(run, plan, 2).experts, first.experts) << "the same place in another ep group";
}

}  // namespace
}  // namespace trireme::parallel
