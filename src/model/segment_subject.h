// A segment's shape as the description sees it: the share of a rank without tensor or context parallelism, and nn's
// kernels.
#pragma once
#include "model/description/describe.h"
#include "model/operators.h"

namespace trireme::model {

struct SegmentSubject {
  explicit SegmentSubject(const SegmentShape& shape);

  Share share;
  Precision precision;
  Execution execution;
  const Kernels& kernels;
  Subject of(const ModelSpec& spec) const { return {spec, share, precision, execution, kernels}; }
};

}  // namespace trireme::model
