// A stored parameter: one tensor, which may hold several named parameters of the model as contiguous pieces (fused
// q, k, v; the gate and up matrices of all hosted experts). Whoever needs names (checkpoint, initial values, norms)
// walks the pieces; whoever needs speed uses the whole.
#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/parameters.h"

namespace trireme::nn {

struct Piece {
  model::ParameterSpec spec;  // name, shape, init, weight decay
  std::int64_t offset = 0;    // first element in the stored tensor; the piece is contiguous
};

struct Parameter {
  std::string name;  // "layers.3.experts.gate_up": of the stored tensor, for messages
  int layer = -1;
  model::Segment segment = model::Segment::none;
  bool expert = false;  // routed experts: reduced over edp, not dp
  bool weight_decay = true;
  std::vector<Piece> pieces;
  at::Tensor value;  // compute dtype, requires_grad leaf
  at::Tensor grad;   // accumulator of value's shape in max(float32, dtype). Whoever trains binds it (to a
                     // bucket's view) before the first backward and zeroes it; segments' backwards add to it.

  at::Tensor piece_value(const Piece& piece) const;  // view of the piece's shape
  at::Tensor piece_grad(const Piece& piece) const;
};

}  // namespace trireme::nn
