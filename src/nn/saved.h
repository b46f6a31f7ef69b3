// What a segment keeps between its passes, as tensors with names: `Saved` from the forward to the backward,
// `WeightWork` from the gradient of the input to that of the weights. A policy may move or drop single tensors by name.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/units.h"
#include "nn/boundary.h"
#include "nn/documents.h"
#include "nn/segment_graph.h"

namespace trireme::nn {

class NamedTensors {
 public:
  struct Entry {
    std::string_view name;  // a literal
    at::Tensor tensor;
  };

  // Under a name that is not there yet. An undefined tensor is not kept.
  void keep(std::string_view name, at::Tensor tensor);
  // Undefined where there is none of this name.
  const at::Tensor& operator[](std::string_view name) const;
  // Gives it away, so that it is freed as soon as its last reader lets go.
  at::Tensor take(std::string_view name);

  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  // Of the storages behind the tensors, each counted once: under the first of its names.
  struct Size {
    std::string_view name;
    Bytes bytes;
  };
  std::vector<Size> sizes() const;
  Bytes bytes() const;

 private:
  std::vector<Entry> entries_;
};

// From a segment's forward to its backward, which takes it and frees each tensor after its last use.
struct Saved {
  model::Segment segment = model::Segment::none;
  int layer = -1;
  NamedTensors tensors;
  // Decisions, which are made once and never again, and what belongs to the micro-batch: shared with their owners.
  std::shared_ptr<const Routing> routing;
  std::vector<std::int64_t> received_counts_PE;
  Batch batch;
  std::vector<DocumentSpan> spans;
  // Plain operators under autograd (nn/composite.h) keep the engine's graph in place of named tensors.
  SegmentGraph graph;
};

// From a segment's backward_input to its backward_weight. Empty where the segment has no weights, and where their
// gradients are made with the input's: by the head, whose forward makes both, and by plain operators under autograd.
struct WeightWork {
  model::Segment segment = model::Segment::none;
  int layer = -1;
  NamedTensors tensors;
  std::vector<std::int64_t> received_counts_PE;
  Batch batch;

  bool empty() const { return tensors.empty(); }
};

}  // namespace trireme::nn
