// The autograd graph of one segment, cut at both ends. Its inputs are detached tensors whose gradients end in a sink of
// ours, and of its outputs only the edges are kept: neither end holds a tensor, so a boundary's storage is freed as
// soon as the next segment has read it, unless a backward formula itself needs it.
#pragma once
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/boundary.h"

namespace trireme::nn {

class SegmentGraph {
 public:
  SegmentGraph();  // empty: `open` makes one
  SegmentGraph(SegmentGraph&&) noexcept;
  SegmentGraph& operator=(SegmentGraph&&) noexcept;
  ~SegmentGraph();

  bool empty() const { return state_ == nullptr; }
  // Replaces the fields read by detached tensors that want a gradient.
  Boundary open(const Boundary& in, const std::vector<Field>& read);
  // Keeps the edges of the fields written.
  void close(const Boundary& out, const std::vector<Field>& written);

  // Runs autograd from the fields written, seeded by the same fields of grad_out, the auxiliary losses by `seeds` and
  // the loss by 1 (the head has applied its seed in its forward). Gradients of the fields read replace or join those of
  // grad_out; fields written and not read are cleared. A field that no gradient reaches gets zeros. Frees the graph.
  Boundary backward(const Boundary& grad_out, const LossSeeds& seeds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::nn
