#include "nn/segment_graph.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "base/errors.h"

namespace trireme::nn {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

namespace {

// Where the gradients of a segment's inputs end. An AccumulateGrad would hold the input tensor; this holds its shape.
class GradientSink : public Node {
 public:
  variable_list apply(variable_list&& gradients) override {
    gradients_ = std::move(gradients);
    return {};
  }
  at::Tensor take(std::size_t index) {
    if (index < gradients_.size() && gradients_[index].defined()) return std::move(gradients_[index]);
    return input_metadata(index).zeros_like();
  }

 private:
  variable_list gradients_;
};

// Up to torch 2.12 nodes are held by shared_ptr, since then by intrusive_ptr.
using NodePointer = decltype(Edge::function);
template <class Pointer>
Pointer make_sink() {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>)
    return std::make_shared<GradientSink>();
  else
    return c10::make_intrusive<GradientSink>();
}

struct Output {
  Field field;
  Edge edge;
  at::TensorOptions options;  // to make the seed of a scalar
};

}  // namespace

struct SegmentGraph::State {
  NodePointer sink = make_sink<NodePointer>();
  std::vector<Field> read;  // by the sink's input number
  std::vector<Field> written;
  std::vector<Output> outputs;
};

SegmentGraph::SegmentGraph() = default;
SegmentGraph::SegmentGraph(SegmentGraph&&) noexcept = default;
SegmentGraph& SegmentGraph::operator=(SegmentGraph&&) noexcept = default;
SegmentGraph::~SegmentGraph() = default;

Boundary SegmentGraph::open(const Boundary& in, const std::vector<Field>& read) {
  state_ = std::make_unique<State>();
  Boundary opened = in;
  for (const Field f : read) {
    const at::Tensor& tensor = field(in, f);
    if (!tensor.defined()) continue;
    at::Tensor leaf = tensor.detach();
    torch::autograd::create_gradient_edge(leaf, state_->sink);
    field(opened, f) = std::move(leaf);
    state_->read.push_back(f);
  }
  return opened;
}

void SegmentGraph::close(const Boundary& out, const std::vector<Field>& written) {
  state_->written = written;
  for (const Field f : written) {
    const at::Tensor& tensor = field(out, f);
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    state_->outputs.push_back({f, torch::autograd::impl::gradient_edge(tensor), tensor.options()});
  }
}

Boundary SegmentGraph::backward(const Boundary& grad_out, const LossSeeds& seeds) {
  torch::autograd::edge_list roots;
  variable_list gradients;
  for (const Output& output : state_->outputs) {
    const auto seed = [&](double value) { return at::full({}, value, output.options); };
    at::Tensor gradient;
    switch (output.field) {
      case Field::aux_loss:
        if (seeds.aux_loss != 0) gradient = seed(seeds.aux_loss);
        break;
      case Field::z_loss:
        if (seeds.z_loss != 0) gradient = seed(seeds.z_loss);
        break;
      case Field::loss:
        gradient = seed(1.0);
        break;
      default:
        gradient = field(grad_out, output.field);
        break;
    }
    if (!gradient.defined()) continue;
    roots.push_back(output.edge);
    gradients.push_back(std::move(gradient));
  }
  state_->outputs.clear();
  Boundary grad_in = grad_out;
  for (const Field f : state_->written) field(grad_in, f) = at::Tensor();
  if (!roots.empty())
    // Every node runs, not only those on the way to the inputs: parameters' gradients are made on the way.
    torch::autograd::Engine::get_default_engine().execute(roots, gradients, /*keep_graph=*/false,
                                                          /*create_graph=*/false, /*accumulate_grad=*/true);
  auto& sink = static_cast<GradientSink&>(*state_->sink);
  for (std::size_t i = 0; i < state_->read.size(); ++i) {
    at::Tensor& slot = field(grad_in, state_->read[i]);
    at::Tensor gradient = sink.take(i);
    slot = slot.defined() ? slot.add(gradient) : std::move(gradient);
  }
  state_.reset();
  return grad_in;
}

}  // namespace trireme::nn
