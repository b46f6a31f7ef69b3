// An end of autograd's graph for tests that count bytes.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <utility>

namespace trireme::nn {

// Where the gradients of inputs end: unlike an AccumulateGrad it does not hold the input itself.
struct Sink : torch::autograd::Node {
  torch::autograd::variable_list gradients;
  torch::autograd::variable_list apply(torch::autograd::variable_list&& g) override {
    gradients = std::move(g);
    return {};
  }
};

}  // namespace trireme::nn
