// Evaluation in passes: the loss does not depend on them, and a stop is heard between two.
#include "train/evaluation.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "nn/counting_allocator.h"
#include "support/rank_threads.h"
#include "train/checkpoint_fixture.h"
#include "train/data_fixture.h"

namespace trireme::train {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EvaluationPasses : public DataTest {
 protected:
  void SetUp() override {
    DataTest::SetUp();
    at::set_num_threads(1);
    nn::install_counting_allocator();
  }

  // `windows` windows of 6 tokens of documents of random lengths.
  std::string make_set(const std::string& name, std::int64_t windows) {
    std::vector<std::vector<std::int32_t>> documents(1);
    const std::uint64_t key = stream_key(7, name);
    for (std::int64_t i = 0; i <= 6 * windows; ++i) {
      if (random_bits(key, static_cast<std::uint64_t>(i)) % 9 == 0) documents.emplace_back();
      documents.back().push_back(
          static_cast<std::int32_t>(random_bits(key, static_cast<std::uint64_t>(i + 100000)) % 29));
    }
    return write_tokens(name, documents);
  }

  plan::RunSpec run_of(std::vector<plan::DataSet> valid, std::int64_t sequences) {
    plan::RunSpec run;
    run.file = "run.toml";
    run.model = small_model();
    run.batch = {.sequence_length = 6, .micro_batch = 2, .global_batch = 8};
    run.device.dtype = run.device.reduce_dtype = DType::float64;
    run.layout.all_to_all = "flat";
    run.train.eval_sequences = sequences;
    run.data.valid = std::move(valid);
    return run;
  }

  struct Ran {
    EvaluationResult result;
    int passes = 0;
    std::vector<std::string> messages;
  };
  // On all ranks of the mesh; checks that they agree, and gives rank 0's.
  Ran evaluate(const plan::RunSpec& run, const plan::Mesh& mesh, int micro_batches,
               const std::function<bool(int rank)>& stop = {}) {
    Ran out;
    std::vector<double> losses(static_cast<std::size_t>(mesh.world()));
    testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
      RankPart part = make_rank(run.model, mesh, rank, at::kDouble);
      part.model->initialise(3);
      EvaluationOptions options{.micro_batches = micro_batches};
      if (stop) options.stop_requested = [&stop, rank] { return stop(rank); };
      if (rank == 0) options.on_message = [&out](const std::string& text) { out.messages.push_back(text); };
      Evaluation evaluation(run, open_evaluation(run), mesh, communicator, rank, *part.model, options);
      const EvaluationResult result = evaluation.run();
      losses[static_cast<std::size_t>(rank)] = result.loss;
      if (rank == 0) out.result = result, out.passes = evaluation.num_passes_run();
    });
    for (const double loss : losses) EXPECT_TRUE(loss == losses[0] || (std::isnan(loss) && std::isnan(losses[0])));
    return out;
  }
};

// 21 sequences, two a micro-batch: one plan of all micro-batches (as it was before there were passes), passes of 3, and
// passes of 1, in four layouts. Float64: they differ by rounding.
TEST_F(EvaluationPasses, TheLossDoesNotDependOnThem) {
  const plan::RunSpec run = run_of({{.prefix = make_set("v", 30)}}, 21);
  const Ran whole = evaluate(run, {}, 1000);
  EXPECT_EQ(whole.passes, 1);
  ASSERT_TRUE(whole.result.complete);
  for (const plan::Mesh mesh :
       {plan::Mesh{}, plan::Mesh{.pp = 2}, plan::Mesh{.dp = 2, .ep = 2}, plan::Mesh{.dp = 4, .ep = 2}})
    for (const int micro_batches : {3, 1}) {
      const Ran ran = evaluate(run, mesh, micro_batches);
      EXPECT_TRUE(ran.result.complete);
      EXPECT_NEAR(ran.result.loss, whole.result.loss, 1e-12);
      // 21 sequences in micro-batches of 2 dp: ceil(21 / (2 dp)), in passes of that many; a pipeline fills 4 a stage.
      const int of_pass = mesh.pp > 1 ? 8 : micro_batches;
      const int all = (21 + 2 * mesh.dp - 1) / (2 * mesh.dp);
      EXPECT_EQ(ran.passes, (all + of_pass - 1) / of_pass);
      EXPECT_THAT(ran.messages, IsEmpty());
    }
}

// A file of 30 windows: a number beyond it, "all" and 30 are the same work, of ceil(30 / 2) micro-batches.
TEST_F(EvaluationPasses, MoreThanTheFileHasIsTheFile) {
  plan::RunSpec run = run_of({{.prefix = make_set("v", 30)}}, 30);
  const Ran exact = evaluate(run, {}, 4);
  for (const std::int64_t wanted : {std::int64_t{31}, std::int64_t{1'000'000'000'000'000}, plan::all_sequences}) {
    run.train.eval_sequences = wanted;
    const Ran ran = evaluate(run, {}, 4);
    EXPECT_EQ(ran.result.loss, exact.result.loss);
    EXPECT_EQ(ran.passes, 4);
    EXPECT_EQ(ran.result.sets[0].sequences, 30);
  }
  run.train.eval_sequences = 100;
  EXPECT_THAT(clamped_sets(run, open_evaluation(run)),
              ::testing::ElementsAre("data.valid: v holds 30 sequences of 6 tokens: an evaluation takes these, where "
                                     "train.eval_sequences = 100 asks for more"));
  run.train.eval_sequences = 30;
  EXPECT_THAT(clamped_sets(run, open_evaluation(run)), IsEmpty());
}

// Two sets: each alone, and their mean by weight 3 : 1.
TEST_F(EvaluationPasses, SetsAreReportedByNameAndWeighed) {
  const std::string v = make_set("v", 9), w = make_set("w", 5);
  const double of_v = evaluate(run_of({{.prefix = v}}, 9), {}, 2).result.loss;
  const double of_w = evaluate(run_of({{.prefix = w}}, 9), {}, 2).result.loss;
  EXPECT_NE(of_v, of_w);
  const Ran both = evaluate(run_of({{.prefix = v, .weight = 3}, {.prefix = w, .name = "other"}}, 9), {.dp = 2}, 2);
  ASSERT_EQ(both.result.sets.size(), 2u);
  EXPECT_EQ(both.result.sets[0].name, "v");
  EXPECT_EQ(both.result.sets[1].name, "other");
  EXPECT_NEAR(both.result.sets[0].loss, of_v, 1e-12);
  EXPECT_NEAR(both.result.sets[1].loss, of_w, 1e-12);
  EXPECT_NEAR(both.result.loss, 0.75 * of_v + 0.25 * of_w, 1e-12);
}

// A random set of 10^15 sequences takes no memory for them. One rank asks for a stop in its third pass: both hear it
// there.
TEST_F(EvaluationPasses, AStopIsHeardBetweenTwoAndNothingIsReported) {
  const plan::RunSpec run = run_of({{.prefix = "random"}}, 1'000'000'000'000'000);
  int asked = 0;
  const Ran ran = evaluate(run, {.dp = 2}, 2, [&](int rank) { return rank == 1 && ++asked >= 3; });
  EXPECT_EQ(ran.passes, 3);
  EXPECT_FALSE(ran.result.complete);
  EXPECT_TRUE(ran.result.stop);
  EXPECT_TRUE(std::isnan(ran.result.loss));
  EXPECT_THAT(ran.result.sets, IsEmpty());
  // In the last pass the result is there, and the stop is told as well.
  const Ran last = evaluate(run_of({{.prefix = make_set("v", 4)}}, 4), {}, 2, [](int) { return true; });
  EXPECT_TRUE(last.result.complete);
  EXPECT_TRUE(last.result.stop);
  EXPECT_GT(last.result.loss, 0);
}

TEST_F(EvaluationPasses, AllOfARandomSetIsRefused) {
  const plan::RunSpec run = run_of({{.prefix = "random"}}, plan::all_sequences);
  EXPECT_THAT(config_error_of([&] { open_evaluation(run); }), HasSubstr("train.eval_sequences = all: needs a number"));
}

// sum w l / sum w: with the weights 2 and 0 on alternate tokens the loss is that of the even ones alone, which a file
// of weights 1 and 0 gives as well; and it is another than that of all.
TEST_F(EvaluationPasses, TheLossIsTheWeightedMean) {
  const std::string v = make_set("v", 12);
  const auto with_weights = [&](float even, float odd) {
    std::string bytes(static_cast<std::size_t>(TokenReader(v).num_tokens()) * sizeof(float), '\0');
    for (std::size_t i = 0; i * sizeof(float) < bytes.size(); ++i)
      std::memcpy(bytes.data() + i * sizeof(float), i % 2 == 0 ? &even : &odd, sizeof(float));
    write_file(v + ".weights", bytes);
    return evaluate(run_of({{.prefix = v}}, 12), {}, 16).result.sets[0];
  };
  const SetLoss all = with_weights(1, 1), even = with_weights(1, 0), odd = with_weights(0, 1),
                twice = with_weights(2, 0);
  EXPECT_NEAR(twice.loss, even.loss, 1e-12);
  EXPECT_EQ(twice.weight, 2 * even.weight);
  EXPECT_EQ(even.weight + odd.weight, all.weight);
  EXPECT_NEAR(even.loss_sum + odd.loss_sum, all.loss_sum, 1e-10);
  EXPECT_GT(std::abs(even.loss - all.loss), 1e-6);
  const SetLoss mixed = with_weights(0.25, 3);
  EXPECT_NEAR(mixed.loss, (0.25 * even.loss_sum + 3 * odd.loss_sum) / (0.25 * even.weight + 3 * odd.weight), 1e-12);
  EXPECT_TRUE(std::isnan(with_weights(0, 0).loss));
}

}  // namespace
}  // namespace trireme::train
