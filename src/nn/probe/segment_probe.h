// Measures a model's own segments, forward and backward, on one rank: what the operators' sum leaves out (routing,
// permutation, autograd, caches shared by neighbouring operators) shows as a factor on it.
#pragma once
#include <vector>

#include "model/operators.h"
#include "nn/probe/compute_probe.h"

namespace trireme::nn {

struct SegmentSample {
  model::Segment segment = model::Segment::none;
  int layer = -1;  // a layer of that kind
  double forward_s = 0, backward_s = 0;  // the head computes its gradient in its forward
};

// One dense layer where the model has any, one MoE layer where it has any, and the ends. `shape.ep` and local_experts as
// for the run's layout: received rows come in equal runs from each source for each expert. Memory: the parameters of those
// layers and of the ends, twice.
std::vector<SegmentSample> probe_segments(const model::ModelSpec& spec, const model::SegmentShape& shape,
                                          const ProbeOptions& options);

}  // namespace trireme::nn
