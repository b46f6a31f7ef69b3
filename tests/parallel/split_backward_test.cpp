// Plans whose backwards are in two halves: the same bits as with whole ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/split_plan.h"
#include "parallel/tiny_run.h"

namespace trireme::parallel {
namespace {

using testing::split_backwards;
using testing::SplitAt;
using testing::tiny_run;

void expect_same_bits(const plan::RunSpec& run, const plan::Mesh& mesh) {
  const testing::Trace whole = testing::run_layout(run, mesh, {.steps = 2});
  ASSERT_FALSE(whole.gradients.empty());
  for (const SplitAt at : {SplitAt::once, SplitAt::end_of_micro_batch}) {
    SCOPED_TRACE(at == SplitAt::once ? "weights at once" : "weights at the end of a micro-batch");
    const testing::Trace split = testing::run_layout(
        run, mesh, {.steps = 2, .change_plan = [at](plan::Plan& plan) { split_backwards(plan, at); }});
    EXPECT_EQ(split.losses, whole.losses);
    EXPECT_EQ(split.norms, whole.norms);
    std::string name;
    EXPECT_EQ(testing::worst_error(split.gradients, whole.gradients, &name), 0.0) << name;
  }
}

TEST(SplitBackward, HasTheBitsOfWholeBackwards) {
  for (const DType dtype : {DType::float64, DType::float32})
    for (const plan::Mesh& mesh : {plan::Mesh{1, 1, 1}, plan::Mesh{2, 1, 1}, plan::Mesh{1, 2, 2}, plan::Mesh{2, 2, 2}})
      for (const std::int64_t micro_batches : {1, 4}) {
        plan::RunSpec run = tiny_run();
        run.device.dtype = run.device.reduce_dtype = dtype;
        run.batch.micro_batch = run.batch.global_batch / mesh.dp / micro_batches;
        SCOPED_TRACE(fmt::format("pp {} dp {} ep {}, {} micro-batches, {} bytes", mesh.pp, mesh.dp, mesh.ep,
                                 micro_batches, size_of(dtype)));
        expect_same_bits(run, mesh);
      }
}

TEST(SplitBackward, HasTheBitsOfWholeBackwardsInBfloat16) {
  plan::RunSpec run = tiny_run();
  run.device.dtype = DType::bfloat16;
  run.batch.micro_batch = 12;
  expect_same_bits(run, {2, 1, 1});
}

}  // namespace
}  // namespace trireme::parallel
