// A rank's runtime: evaluation, packed documents, failures, memory.
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "nn/counting_allocator.h"
#include "parallel/setup.h"
#include "parallel/tiny_run.h"
#include "support/rank_threads.h"

namespace trireme::parallel {
namespace {

using ::testing::HasSubstr;
using testing::tiny_batch;
using testing::tiny_run;
using testing::TinyOptions;

plan::RunSpec double_run() {
  plan::RunSpec run = tiny_run();
  run.device.dtype = run.device.reduce_dtype = DType::float64;
  run.batch.micro_batch = 12;
  return run;
}

std::function<nn::Batch(int)> batches_of(const plan::RunSpec& run, const plan::Mesh& mesh, int rank) {
  return [&run, mesh, rank](int mb) {
    const std::int64_t place = static_cast<std::int64_t>(mb) * mesh.dp + mesh.dp_index(rank);
    return tiny_batch(run, 0, place * run.batch.micro_batch, run.batch.micro_batch);
  };
}

TEST(Evaluation, AForwardOnlyPlanGivesTheLossOfTheSingleProcess) {
  plan::RunSpec run = double_run();
  const testing::Trace single = testing::run_single(run, {.steps = 1});
  for (const plan::Mesh mesh : {plan::Mesh{1, 1, 1}, plan::Mesh{2, 2, 2}, plan::Mesh{4, 1, 1}, plan::Mesh{1, 4, 2}}) {
    const plan::Plan plan =
        plan::make_evaluation_plan(run, mesh, static_cast<int>(run.batch.num_micro_batches(mesh.dp)));
    EXPECT_THAT(plan::problems(plan), ::testing::IsEmpty());
    testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
      const auto model = make_model(run, plan, rank);
      model->initialise(run.train.seed);
      StageRuntime runtime(run, plan, communicator, rank, *model, nullptr, {.batch = batches_of(run, mesh, rank)});
      for (int repeat = 0; repeat < 2; ++repeat) {
        const StepResult result = runtime.step();
        EXPECT_NEAR(result.sums.mean_loss(), single.losses[0], 1e-10 * single.losses[0]);
        EXPECT_NEAR(result.sums.mean_aux_loss(), single.aux_losses[0], 1e-10 * single.aux_losses[0]);
      }
      for (const nn::Parameter* p : model->parameters()) EXPECT_FALSE(p->grad.defined()) << p->name;
    });
  }
}

TEST(Evaluation, PaddedSequencesDoNotCount) {
  // Equal batches everywhere: the second data rank's micro-batch is padding only (weights 0, documents -1).
  plan::RunSpec run = double_run();
  run.batch = {.sequence_length = 8, .micro_batch = 4, .global_batch = 8};
  const plan::Mesh mesh{.pp = 1, .dp = 2, .ep = 2};
  plan::RunSpec half = run;
  half.batch.global_batch = 4;
  const testing::Trace single = testing::run_single(half, {.steps = 1});
  const plan::Plan plan = plan::make_evaluation_plan(run, mesh, 1);
  testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
    const auto model = make_model(run, plan, rank);
    model->initialise(run.train.seed);
    StepHooks hooks;
    hooks.batch = [&](int) {
      nn::Batch batch = tiny_batch(run, 0, 0, 4);
      if (rank == 1) batch.weights_BS.zero_(), batch.documents_BS.fill_(-1);
      return batch;
    };
    StageRuntime runtime(run, plan, communicator, rank, *model, nullptr, hooks);
    const StepResult result = runtime.step();
    EXPECT_NEAR(result.sums.mean_loss(), single.losses[0], 1e-10 * single.losses[0]);
    EXPECT_NEAR(result.sums.mean_z_loss(), single.z_losses[0], 1e-10 * single.z_losses[0]);
  });
}

TEST(PackedDocuments, EqualTheSameDocumentsApart) {
  // 16 documents of 4 tokens: two to a sequence of 8, or each alone in a sequence padded to 8. The auxiliary loss is a
  // mean over sequences, so it is off; z-loss and loss count tokens.
  plan::RunSpec packed = double_run();
  packed.model.moe.router.aux_loss_coefficient = 0;
  packed.batch = {.sequence_length = 8, .micro_batch = 2, .global_batch = 8};
  plan::RunSpec apart = packed;
  apart.batch.global_batch = 16;
  const auto document = [](std::int64_t d, std::int64_t t) { return (d * 31 + t * 17 + 5) % 99; };
  TinyOptions of_packed{.steps = 3}, of_apart{.steps = 3};
  const auto make = [&](std::int64_t documents_each) {
    return [&document, documents_each](const plan::RunSpec&, int step, std::int64_t first, std::int64_t count) {
      const auto i64 = at::TensorOptions().dtype(at::kLong);
      nn::Batch b{at::zeros({count, 8}, i64), at::zeros({count, 8}, i64), at::zeros({count, 8}),
                  at::zeros({count, 8}, i64), at::full({count, 8}, -1, i64)};
      for (std::int64_t s = 0; s < count; ++s)
        for (std::int64_t t = 0; t < 4 * documents_each; ++t) {
          const std::int64_t d = (first + s) * documents_each + t / 4, at = t % 4;
          b.tokens_BS[s][t] = document(d, at);
          b.targets_BS[s][t] = document(d, at + 1);
          b.weights_BS[s][t] = at < 3 ? 1.0 : 0.0;
          b.positions_BS[s][t] = at;
          b.documents_BS[s][t] = t / 4;
        }
      return b;
    };
  };
  of_packed.batch = make(2);
  of_apart.batch = make(1);
  for (const plan::Mesh mesh : {plan::Mesh{1, 1, 1}, plan::Mesh{2, 2, 2}}) {
    const testing::Trace a = testing::run_layout(packed, mesh, of_packed),
                         b = testing::run_layout(apart, mesh, of_apart);
    std::string name;
    EXPECT_LE(testing::worst_error(a.gradients, b.gradients, &name), 1e-12) << name;
    for (int step = 0; step < 3; ++step) EXPECT_NEAR(a.losses[step], b.losses[step], 1e-10 * b.losses[step]);
  }
}

TEST(Failure, AnExceptionInASegmentNamesRankAndActionAndEndsTheOthers) {
  // Rank 1 of two stages meets a token that its vocabulary lacks: its head fails on the target.
  plan::RunSpec run = double_run();
  const plan::Mesh mesh{.pp = 2, .dp = 1, .ep = 1};
  const plan::Plan plan = plan::make_training_plan(run, mesh);
  const auto start = std::chrono::steady_clock::now();
  const auto errors =
      testing::collect_mesh_errors(mesh,
                                   [&](int rank, comm::Communicator& communicator) {
                                     const auto model = make_model(run, plan, rank);
                                     model->initialise(1);
                                     const auto buckets = make_buckets(run, plan, rank, *model);
                                     StepHooks hooks;
                                     hooks.batch = [&](int mb) {
                                       nn::Batch batch = batches_of(run, mesh, rank)(mb);
                                       if (mb == 3 && rank == 1)
                                         batch.targets_BS.fill_(1000), batch.weights_BS.fill_(1.0);
                                       return batch;
                                     };
                                     StageRuntime runtime(run, plan, communicator, rank, *model, buckets.get(), hooks);
                                     runtime.step();
                                   },
                                   {.timeout = std::chrono::seconds(30)});
  EXPECT_THAT(testing::text_of(errors[1]), HasSubstr("rank 1"));
  EXPECT_THAT(testing::text_of(errors[1]), HasSubstr("forward head mb 3"));
  ASSERT_TRUE(errors[0]) << "the other rank must not hang or succeed";
  EXPECT_THROW(std::rethrow_exception(errors[0]), RuntimeFailure);
  // Far below the communication's time-out: the failing rank closes its connections.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(25));
}

TEST(Failure, ABufferThatThePlanForgetsToFreeIsNamed) {
  plan::RunSpec run = double_run();
  const plan::Mesh mesh{.pp = 1, .dp = 1, .ep = 1};
  plan::Plan plan = plan::make_training_plan(run, mesh);
  for (plan::Action& action : plan.stages[0].actions)
    if (action.kind == plan::ActionKind::backward && action.segment == model::Segment::embed && action.mb == 2)
      std::erase_if(action.frees, [&](int b) { return plan.stages[0].buffers[b].kind == plan::BufferKind::gradient; });
  const auto errors = testing::collect_mesh_errors(mesh, [&](int rank, comm::Communicator& communicator) {
    const auto model = make_model(run, plan, rank);
    model->initialise(1);
    const auto buckets = make_buckets(run, plan, rank, *model);
    StageRuntime runtime(run, plan, communicator, rank, *model, buckets.get(), {.batch = batches_of(run, mesh, rank)});
    runtime.step();
  });
  EXPECT_THAT(testing::text_of(errors[0]),
              HasSubstr("gradient attention mb 2 layer 0 is alive at the end of the step"));
}

// Rows that nobody filled, tails of a grouped product, a message's buffer: whatever is read before it is written is NaN.
TEST(Memory, NothingIsReadBeforeItIsWritten) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    plan::RunSpec run = double_run();
    run.device.dtype = run.device.reduce_dtype = dtype;
    const plan::Mesh mesh{2, 2, 2};
    const testing::Trace clean = testing::run_layout(run, mesh, {.steps = 2});
    nn::poison_fresh_memory(true);
    ASSERT_TRUE(at::empty({3}).isnan().all().item<bool>()) << "the test's own premise";
    const testing::Trace poisoned = testing::run_layout(run, mesh, {.steps = 2});
    nn::poison_fresh_memory(false);
    EXPECT_EQ(poisoned.losses, clean.losses);
    EXPECT_EQ(poisoned.norms, clean.norms);
    EXPECT_EQ(testing::worst_error(poisoned.gradients, clean.gradients), 0.0);
  }
}

// What makes a rank clip or skip is one value on every rank, also where one of them alone holds an infinity.
TEST(GlobalNorm, AnInfinityOfOneRankIsEveryRanks) {
  plan::RunSpec run = double_run();
  const plan::Mesh mesh{2, 2, 2};
  const plan::Plan plan = plan::make_training_plan(run, mesh);
  testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
    const auto model = make_model(run, plan, rank);
    model->initialise(1);
    const auto buckets = make_buckets(run, plan, rank, *model);
    StepHooks hooks;
    hooks.batch = batches_of(run, mesh, rank);
    hooks.owned_sum_of_squares = [&] { return rank == 2 ? std::numeric_limits<double>::infinity() : 1.0 + rank; };
    double seen = 0;
    hooks.optimizer = [&](const StepSums&, double norm) { seen = norm; };
    StageRuntime runtime(run, plan, communicator, rank, *model, buckets.get(), hooks);
    EXPECT_TRUE(std::isinf(runtime.step().gradient_norm)) << "rank " << rank;
    EXPECT_TRUE(std::isinf(seen)) << "rank " << rank;
  });
}

// A step whose update is not accepted leaves everything as it was, selection biases included; nor do frozen biases move.
TEST(Update, IsMadeWhereItIsAccepted) {
  plan::RunSpec run = double_run();
  run.model.moe.router.selection_bias = true;
  const plan::Mesh mesh{2, 2, 2};
  for (const bool frozen : {false, true}) {
    run.train.freeze.clear();
    if (frozen) run.train.freeze = {"*.selection_bias"};
    const plan::Plan plan = plan::make_training_plan(run, mesh);
    testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
      const auto model = make_model(run, plan, rank);
      model->initialise(1);
      const auto buckets = make_buckets(run, plan, rank, *model);
      bool accepts = false;
      int updates = 0;
      StepHooks hooks;
      hooks.batch = batches_of(run, mesh, rank);
      hooks.accepts_update = [&](const StepSums&, double) { return accepts; };
      hooks.optimizer = [&](const StepSums&, double) { ++updates; };
      StageRuntime runtime(run, plan, communicator, rank, *model, buckets.get(), hooks);
      const auto biases = [&] {
        double sum = 0;
        for (int layer = model->hosted().layers.first_layer; layer < model->hosted().layers.first_layer + model->hosted().layers.num_layers; ++layer)
          if (run.model.is_moe(layer)) sum += model->selection_bias(layer).abs().sum().item<double>();
        return sum;
      };
      runtime.step();
      EXPECT_EQ(updates, 0);
      EXPECT_EQ(biases(), 0.0);
      accepts = true;
      runtime.step();
      EXPECT_EQ(updates, 1);
      EXPECT_EQ(biases() > 0, !frozen);
    });
  }
}

TEST(Memory, NothingOfAStepStaysAlive) {
  // Bytes of all tensors after every step but the first (which makes what is kept, such as tables): exactly the same.
  plan::RunSpec run = double_run();
  for (const plan::Mesh mesh : {plan::Mesh{1, 1, 1}, plan::Mesh{2, 2, 2}}) {
    const plan::Plan plan = plan::make_training_plan(run, mesh);
    std::mutex mutex;
    std::condition_variable all_here;
    int arrived = 0;
    std::vector<std::int64_t> alive, peak;
    testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
      const auto model = make_model(run, plan, rank);
      model->initialise(1);
      const auto buckets = make_buckets(run, plan, rank, *model);
      StageRuntime runtime(run, plan, communicator, rank, *model, buckets.get(),
                           {.batch = batches_of(run, mesh, rank)});
      for (int step = 0; step < 6; ++step) {
        runtime.step();
        // The counter is the process's: the last rank to arrive reads it while the others wait.
        std::unique_lock lock(mutex);
        if (++arrived == (step + 1) * mesh.world()) {
          alive.push_back(nn::current_tensor_bytes());
          peak.push_back(nn::peak_tensor_bytes());
          nn::reset_peak_tensor_bytes();
          all_here.notify_all();
        }
        all_here.wait(lock, [&] { return arrived >= (step + 1) * mesh.world(); });
      }
    });
    for (std::size_t step = 2; step < alive.size(); ++step) EXPECT_EQ(alive[step], alive[1]) << "step " << step;
    EXPECT_GT(peak[2], alive[2]) << "the counter counts";
    if (mesh.world() == 1) {
      EXPECT_EQ(peak[4], peak[2]);  // one rank does the same in every step
    }
  }
}

}  // namespace
}  // namespace trireme::parallel
