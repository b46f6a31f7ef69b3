// A segment's graph cut at both ends: the same gradients as one graph, and no tensor kept that no formula needs.
#include "nn/segment_graph.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

namespace trireme::nn {
namespace {

at::Tensor numbers(at::IntArrayRef shape, double from) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return at::arange(from, from + static_cast<double>(n), at::kDouble).view(shape) / 7.0;
}

TEST(SegmentGraph, TwoSegmentsGiveTheGradientsOfOneGraph) {
  const at::Tensor x = numbers({3, 4}, -5), w = numbers({4, 4}, 1);
  const at::Tensor leaf = x.clone().requires_grad_();
  at::tanh(at::matmul(leaf, w)).mul(leaf).sum().backward();

  at::AutoGradMode grad(true);
  SegmentGraph first, second;
  Boundary in;
  in.x_TD = x;
  const Boundary opened = first.open(in, {Field::x});
  Boundary middle;
  middle.x_TD = at::matmul(opened.x_TD, w);
  middle.normed_TD = opened.x_TD * 1.0;
  first.close(middle, {Field::x, Field::normed});
  Boundary handed;
  handed.x_TD = middle.x_TD.detach();
  handed.normed_TD = middle.normed_TD.detach();
  const Boundary again = second.open(handed, {Field::x, Field::normed});
  Boundary out;
  out.x_TD = at::tanh(again.x_TD) * again.normed_TD;
  second.close(out, {Field::x});

  Boundary gradient;
  gradient.x_TD = at::ones_like(x);
  gradient = second.backward(gradient, {});
  ASSERT_TRUE(gradient.normed_TD.defined());
  gradient = first.backward(gradient, {});
  EXPECT_TRUE(gradient.x_TD.allclose(leaf.grad(), 1e-14, 0.0));
  EXPECT_FALSE(gradient.normed_TD.defined()) << "written by the segment, so its gradient ends there";
}

TEST(SegmentGraph, SeedsScalarsAndLeavesOthersAlone) {
  at::AutoGradMode grad(true);
  SegmentGraph graph;
  Boundary in;
  in.x_TD = numbers({2, 2}, 1);
  const Boundary opened = graph.open(in, {Field::x});
  Boundary out;
  out.aux_loss = opened.x_TD.sum();
  out.z_loss = opened.x_TD.sum() * 10;
  out.loss = opened.x_TD.sum() * 100;
  graph.close(out, {Field::aux_loss, Field::z_loss, Field::loss});
  Boundary passing;
  passing.shared_TD = at::ones({1});
  const Boundary gradient = graph.backward(passing, {.aux_loss = 2, .z_loss = 3});
  // d/dx = 2 * 1 + 3 * 10 + 1 * 100: the loss itself was seeded in the head's forward.
  EXPECT_TRUE(gradient.x_TD.equal(at::full({2, 2}, 132.0, at::kDouble)));
  EXPECT_TRUE(gradient.shared_TD.defined());
}

TEST(SegmentGraph, AFieldThatNoGradientReachesGetsZeros) {
  at::AutoGradMode grad(true);
  SegmentGraph graph;
  Boundary in;
  in.x_TD = numbers({2, 3}, 1);
  in.rows_RD = at::empty({0, 3}, at::kDouble);  // a rank that received nothing
  const Boundary opened = graph.open(in, {Field::x, Field::rows});
  Boundary out;
  out.rows_RD = opened.rows_RD * 2;
  graph.close(out, {Field::rows});
  Boundary incoming;
  incoming.rows_RD = at::empty({0, 3}, at::kDouble);
  const Boundary gradient = graph.backward(incoming, {});
  EXPECT_TRUE(gradient.x_TD.equal(at::zeros({2, 3}, at::kDouble)));
  EXPECT_EQ(gradient.rows_RD.sizes(), at::IntArrayRef({0, 3}));
}

TEST(SegmentGraph, HoldsNeitherInputNorOutput) {
  at::AutoGradMode grad(true);
  SegmentGraph graph;
  Boundary in, out;
  in.x_TD = numbers({8, 8}, 1);
  const c10::weak_intrusive_ptr<c10::StorageImpl> input(in.x_TD.storage().getWeakStorageImpl());
  {
    const Boundary opened = graph.open(in, {Field::x});
    out.x_TD = opened.x_TD + 1.0;  // the backward of a sum needs no value
  }
  graph.close(out, {Field::x});
  const c10::weak_intrusive_ptr<c10::StorageImpl> output(out.x_TD.storage().getWeakStorageImpl());
  in = out = {};
  EXPECT_TRUE(input.expired());
  EXPECT_TRUE(output.expired());
  Boundary gradient;
  gradient.x_TD = at::ones({8, 8}, at::kDouble);
  EXPECT_TRUE(graph.backward(gradient, {}).x_TD.equal(at::ones({8, 8}, at::kDouble)));
}

}  // namespace
}  // namespace trireme::nn
