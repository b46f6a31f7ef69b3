// How a part of a model is held and computed.
#pragma once
#include <ATen/core/Tensor.h>

#include "model/operators.h"

namespace trireme::nn {

struct ModelOptions {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;                          // of parameters and of compute
  std::int64_t head_chunk_tokens = model::head_chunk_tokens;  // tokens whose logits exist at one time
  bool reference = false;  // plain ATen operators everywhere (the oracle), no fused kernels
};

}  // namespace trireme::nn
