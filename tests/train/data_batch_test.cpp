#include "train/data/batch.h"

#include <ATen/ATen.h>

#include "train/data_fixture.h"

namespace trireme::train {
namespace {

TEST(MakeBatch, HoldsTheSequencesOfTheSourceInOrder) {
  const auto source = random_source(50, 6, 1);
  const nn::Batch batch = make_batch(*source, 4, 3);
  ASSERT_EQ(batch.tokens_BS.sizes(), (at::IntArrayRef{3, 6}));
  EXPECT_EQ(batch.weights_BS.scalar_type(), at::kFloat);
  for (std::int64_t b = 0; b < 3; ++b) {
    const auto s = read_sequence(*source, 4 + b);
    for (std::int64_t i = 0; i < 6; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(batch.tokens_BS[b][i].item<std::int64_t>(), s.tokens[at]);
      EXPECT_EQ(batch.targets_BS[b][i].item<std::int64_t>(), s.targets[at]);
      EXPECT_EQ(batch.positions_BS[b][i].item<std::int64_t>(), s.positions[at]);
      EXPECT_EQ(batch.documents_BS[b][i].item<std::int64_t>(), s.documents[at]);
      EXPECT_EQ(batch.weights_BS[b][i].item<float>(), s.weights[at]);
    }
  }
}

TEST(MakeBatch, AnEmptyBatchHasItsShape) {
  EXPECT_EQ(make_batch(*random_source(50, 6, 1), 0, 0).tokens_BS.sizes(), (at::IntArrayRef{0, 6}));
}

}  // namespace
}  // namespace trireme::train
