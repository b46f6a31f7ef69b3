#include "train/generate/layout_decoder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "nn/extend.h"
#include "nn/single_device.h"
#include "support/rank_threads.h"
#include "train/checkpoint_fixture.h"

namespace trireme::train {
namespace {

std::vector<std::vector<nn::SlotTokens>> steps() {
  return {{{0, {1, 2, 3, 4, 5}}, {1, {7}}}, {{1, {28, 0}}, {0, {6}}}, {{0, {9}}}, {{1, {11, 12, 13}}, {0, {3}}}};
}

class GenerateLayout : public ::testing::TestWithParam<std::pair<int, int>> {};

// Rank 0 gets the logits of the whole model on one device; a rank that does not lead its stage keeps no keys.
TEST_P(GenerateLayout, LogitsAreThoseOfOneRank) {
  const model::ModelSpec spec = small_model();
  const auto [pp, ep] = GetParam();
  nn::Model whole(spec, nn::whole_model(spec), {});
  whole.initialise(3);
  nn::KeyValueCache cache = nn::make_cache(spec, whole.hosted().layers, whole.options(), 2, 20);
  std::vector<at::Tensor> expected;
  for (const auto& step : steps()) expected.push_back(nn::next_logits(whole, nn::follow(cache, step), cache));
  const plan::Mesh mesh = generation_mesh(spec, pp, ep);
  ASSERT_EQ(mesh.world(), pp * ep);
  testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
    nn::Model part(spec, hosted_for_generation(spec, mesh, rank), {});
    part.initialise(3);
    LayoutDecoder decoder(part, mesh, communicator, rank, 2, 20);
    EXPECT_EQ(decoder.cache_bytes() > 0, mesh.ep_index(rank) == 0);
    if (rank > 0) return decoder.serve();
    const Decoder leader = decoder.decoder();
    for (int round = 0; round < 2; ++round) {  // the second one in cleared slots
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const at::Tensor found = leader.next(steps()[i]);
        EXPECT_LE((found - expected[i]).norm().item<double>() / expected[i].norm().item<double>(), 1e-6) << i;
      }
      leader.clear(0);
      leader.clear(1);
    }
    decoder.finish();
  });
}

INSTANTIATE_TEST_SUITE_P(All, GenerateLayout,
                         ::testing::Values(std::pair(1, 1), std::pair(2, 1), std::pair(1, 2), std::pair(2, 2),
                                           std::pair(3, 1), std::pair(1, 4)));

TEST(GenerateMesh, SaysWhatCannotBeCut) {
  const auto key_of = [](int pp, int ep) {
    try {
      generation_mesh(small_model(), pp, ep);
    } catch (const ConfigError& error) {
      return error.detail().key;
    }
    return std::string();
  };
  EXPECT_EQ(key_of(4, 4), "");
  EXPECT_EQ(key_of(5, 1), "--pp");
  EXPECT_EQ(key_of(0, 1), "--pp");
  EXPECT_EQ(key_of(1, 3), "--ep");
  EXPECT_EQ(key_of(1, 0), "--ep");
}

}  // namespace
}  // namespace trireme::train
