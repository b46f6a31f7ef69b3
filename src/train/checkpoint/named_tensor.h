// A tensor under its global name, which no layout changes: "layers.3.experts.5.gate.weight",
// "optimizer.exp_avg.layers.3.experts.5.gate.weight".
#pragma once
#include <string>

#include <ATen/core/Tensor.h>

namespace trireme::train {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

}  // namespace trireme::train
