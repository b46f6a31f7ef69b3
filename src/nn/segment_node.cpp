#include "nn/segment_node.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "base/errors.h"

namespace trireme::nn {
namespace {

namespace autograd = torch::autograd;

struct SegmentNode : autograd::Node {
  explicit SegmentNode(autograd::edge_list&& edges) : autograd::Node(std::move(edges)) {}

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    TRIREME_CHECK(backward != nullptr, "a segment's backward ran twice");
    at::NoGradGuard no_grad;
    // Taken out, so that what it holds is freed as soon as it returns.
    const Backward run = std::move(backward);
    backward = nullptr;
    autograd::variable_list result = run(std::move(gradients));
    TRIREME_CHECK(result.size() == num_outputs(), "{} input gradients for {} inputs", result.size(), num_outputs());
    return result;
  }
  void release_variables() override { backward = nullptr; }
  std::string name() const override { return "SegmentNode"; }

  Backward backward;
};

// libtorch 2.13 counts its nodes intrusively, 2.11 with std::shared_ptr.
using NodePointer = std::decay_t<decltype(std::declval<autograd::Edge>().function)>;

template <class Pointer, class T, class... Arguments>
Pointer make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<autograd::Node>>) {
    return std::make_shared<T>(std::forward<Arguments>(arguments)...);
  } else {
    return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace

void attach(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, Backward backward) {
  if (!at::GradMode::is_enabled()) return;
  autograd::edge_list edges;
  edges.reserve(inputs.size());
  for (const at::Tensor& t : inputs) edges.push_back(t.defined() ? autograd::impl::gradient_edge(t) : autograd::Edge());
  const auto node = make_node<NodePointer, SegmentNode>(std::move(edges));
  static_cast<SegmentNode*>(node.get())->backward = std::move(backward);
  for (const at::Tensor& t : outputs) autograd::set_history(t, node);
}

}  // namespace trireme::nn
