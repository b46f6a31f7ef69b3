// A piece of computation with a hand-written backward, as one autograd node.
#pragma once
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::nn {

// Gets the gradients of the outputs (undefined where nothing flowed back), adds parameter gradients to their
// accumulators itself, and returns the gradients of the inputs (undefined where none).
using Backward = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>;

// Makes `outputs` (fresh tensors without history) results of a node whose inputs are `inputs`. Undefined tensors are
// allowed in both. What the backward needs it captures: an output only as output.detach(), else it would keep itself
// alive. The captures are dropped once the backward has run. Does nothing when grad mode is off.
void attach(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, Backward backward);

}  // namespace trireme::nn
