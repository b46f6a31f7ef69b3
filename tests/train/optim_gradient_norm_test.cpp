#include "train/optim/gradient_norm.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace trireme::train {
namespace {

// One piece a parameter, one element a gradient unless more are given.
nn::Parameter with_gradient(const std::string& name, std::vector<double> gradient, bool expert) {
  nn::Parameter p;
  p.name = name;
  p.expert = expert;
  p.grad = at::tensor(gradient, at::kFloat);
  nn::Piece piece;
  piece.spec.name = name;
  piece.spec.shape = {static_cast<std::int64_t>(gradient.size())};
  p.pieces = {piece};
  return p;
}

double global_norm(const plan::Mesh& mesh, std::vector<std::vector<nn::Parameter>> hosted_by_rank) {
  double sum = 0;
  for (int rank = 0; rank < mesh.world(); ++rank) {
    std::vector<nn::Parameter*> pointers;
    for (nn::Parameter& p : hosted_by_rank[static_cast<std::size_t>(rank)]) pointers.push_back(&p);
    sum += sum_of_squares(pointers, {.mesh = mesh, .rank = rank});
  }
  return std::sqrt(sum);
}

nn::Parameter expert(int id, double gradient) {
  return with_gradient(fmt::format("layers.0.experts.{}.gate.weight", id), {gradient}, true);
}

// DeepSpeed #8478: gradients 2, 4, 6, 8 of four experts, two on each of two ranks: sqrt(4 + 16 + 36 + 64) = sqrt(120).
// Averaging the ranks' norms gives (sqrt(20) + sqrt(100)) / 2 = 7.236068, the bug.
TEST(GradientNorm, AddsExpertsOverTheirDistinctOwners) {
  EXPECT_NEAR(global_norm({.pp = 1, .dp = 2, .ep = 2}, {{expert(0, 2), expert(1, 4)}, {expert(2, 6), expert(3, 8)}}),
              10.954452, 1e-6);
}

// The same experts on one rank, and each hosted twice (edp 2: ranks 2 and 3 repeat ranks 0 and 1).
TEST(GradientNorm, IsTheSameInEveryLayout) {
  EXPECT_NEAR(global_norm({.pp = 1, .dp = 1, .ep = 1}, {{expert(0, 2), expert(1, 4), expert(2, 6), expert(3, 8)}}),
              10.954452, 1e-6);
  const std::vector<nn::Parameter> low = {expert(0, 2), expert(1, 4)}, high = {expert(2, 6), expert(3, 8)};
  EXPECT_NEAR(global_norm({.pp = 1, .dp = 4, .ep = 2}, {low, high, low, high}), 10.954452, 1e-6);
}

// DeepSpeed #8613: a shared parameter with four gradients of 3.0 and four experts' gradients of 4.0:
// sqrt(4 * 9 + 4 * 16) = 10. Dropping the experts gives 6, counting the replicated part twice 11.66.
TEST(GradientNorm, CountsReplicatedParametersOnceAndAllExperts) {
  const nn::Parameter shared = with_gradient("layers.0.attention.q.weight", {3, 3, 3, 3}, false);
  const auto experts = [](int first) { return std::vector<nn::Parameter>{expert(first, 4), expert(first + 1, 4)}; };
  std::vector<nn::Parameter> rank0 = experts(0), rank1 = experts(2);
  rank0.push_back(shared), rank1.push_back(shared);
  EXPECT_DOUBLE_EQ(global_norm({.pp = 1, .dp = 2, .ep = 2}, {rank0, rank1}), 10.0);
}

// Tied embeddings on two stages: gradient 3 on both copies (summed over the embedding group before), 4 elsewhere: 5.
TEST(GradientNorm, CountsATiedEmbeddingOnTheFirstStageOnly) {
  const nn::Parameter copy = with_gradient("embed.weight", {3}, false);
  const nn::Parameter norm = with_gradient("final_norm.weight", {4}, false);
  EXPECT_DOUBLE_EQ(global_norm({.pp = 2, .dp = 1, .ep = 1}, {{copy}, {copy, norm}}), 5.0);
}

TEST(GradientNorm, OfARankThatOwnsNothingIsZero) {
  nn::Parameter p = with_gradient("layers.0.attention.q.weight", {3}, false);
  EXPECT_EQ(sum_of_squares({&p}, {.mesh = {.pp = 1, .dp = 2, .ep = 1}, .rank = 1}), 0.0);
  EXPECT_EQ(sum_of_squares({}, {}), 0.0);
}

TEST(GradientNorm, ShowsInfinityAndNan) {
  nn::Parameter inf = with_gradient("a", {1, std::numeric_limits<double>::infinity()}, false);
  nn::Parameter nan = with_gradient("b", {1, std::nan("")}, false);
  EXPECT_TRUE(std::isinf(sum_of_squares({&inf}, {})));
  EXPECT_TRUE(std::isnan(sum_of_squares({&nan}, {})));
  EXPECT_TRUE(std::isnan(sum_of_squares({&inf, &nan}, {})));
}

// 1e30 squared overflows float32 (3.4e38) but not the float64 sum.
TEST(GradientNorm, SumsInFloat64) {
  nn::Parameter p = with_gradient("a", {3e30, 4e30}, false);
  EXPECT_NEAR(std::sqrt(sum_of_squares({&p}, {})) / 5e30, 1.0, 1e-7);
}

TEST(GradientNorm, GivesTheSameBitsWithAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  nn::Parameter p = with_gradient("a", {0}, false);
  const std::int64_t count = 300007;
  p.grad = at::sin(at::arange(count, at::kFloat));
  p.pieces[0].spec.shape = {count};
  at::set_num_threads(1);
  const double one = sum_of_squares({&p}, {});
  at::set_num_threads(3);
  const double three = sum_of_squares({&p}, {});
  at::set_num_threads(before);
  EXPECT_EQ(one, three);
  // The mean of sin^2 over the integers is 1/2 (equidistribution); the error is bounded by 1 / (2 sin 1).
  EXPECT_NEAR(one, count / 2.0, 1.0);
}

TEST(ClipFactor, BringsTheNormToTheLimit) {
  EXPECT_DOUBLE_EQ(clip_factor(10.0, 1.0), 0.1);
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clip_factor(10.0, 0.0), 1.0);
}

}  // namespace
}  // namespace trireme::train
