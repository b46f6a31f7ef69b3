#include "nn/single_device.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <numeric>

#include "base/errors.h"

namespace trireme::nn {

using model::Segment;

namespace {

struct Record {
  Segment segment;
  int layer;
  Boundary in;     // leaves
  Boundary edges;  // of the outputs
};

struct Runner {
  Model& model;
  const Batch& batch;
  double head_seed;
  bool training;
  std::vector<Record> records;
  StepLosses losses;

  Boundary run(Segment segment, int layer, const Boundary& in) {
    const model::ModelSpec& spec = model.spec();
    const Boundary out = model.forward(segment, layer, in, batch, head_seed);
    if (out.loss.defined()) losses.loss += out.loss.item<double>();
    if (segment == Segment::attention && spec.is_moe(layer)) {
      if (out.aux_loss.defined()) losses.aux_loss += out.aux_loss.item<double>();
      if (out.z_loss.defined()) losses.z_loss += out.z_loss.item<double>();
      losses.counts_LE.push_back(out.routing->counts_E);
    }
    if (!training) return out;
    records.push_back({segment, layer, in, edges_of(spec, segment, layer, out)});
    return as_leaves(spec, segment, layer, out);
  }

  void forward() {
    const model::ModelSpec& spec = model.spec();
    TRIREME_CHECK(model.hosted().layers.num_layers == spec.num_layers, "the model is not whole");
    Boundary b = run(Segment::embed, -1, {});
    for (int layer = 0; layer < spec.num_layers; ++layer)
      for (const Segment segment : model::computing_segments(spec, layer)) {
        if (segment == Segment::experts) b.received_counts_PE = b.routing->counts_E;
        b = run(segment, layer, b);
      }
    run(Segment::head, -1, b);
  }

  void backward(const LossSeeds& seeds) {
    const model::ModelSpec& spec = model.spec();
    Boundary gradient;
    while (!records.empty()) {
      Record record = std::move(records.back());
      records.pop_back();
      Boundary next = nn::backward(spec, record.segment, record.layer, record.in, record.edges, gradient, seeds);
      // What a segment writes it does not pass on; the gradient of what passed through stays.
      for (Field f : fields_written(spec, record.segment, record.layer)) field(gradient, f) = at::Tensor();
      for (Field f : fields_read(spec, record.segment, record.layer)) field(gradient, f) = field(next, f);
    }
  }
};

}  // namespace

Hosted whole_model(const model::ModelSpec& spec) {
  Hosted all{.layers = {.num_layers = spec.num_layers, .embed = true, .head = true}};
  all.experts.resize(static_cast<std::size_t>(spec.moe.num_experts));
  std::iota(all.experts.begin(), all.experts.end(), 0);
  return all;
}

Boundary as_leaves(const model::ModelSpec& spec, Segment segment, int layer, const Boundary& out) {
  Boundary leaves = out;
  for (Field f : fields_written(spec, segment, layer)) {
    at::Tensor& value = field(leaves, f);
    if (value.defined()) value = value.detach().set_requires_grad(true);
  }
  return leaves;
}

Boundary edges_of(const model::ModelSpec& spec, Segment segment, int layer, const Boundary& out) {
  namespace autograd = torch::autograd;
  Boundary edges;
  for (Field f : fields_written(spec, segment, layer)) {
    const at::Tensor& value = field(out, f);
    if (!value.defined() || value.grad_fn() == nullptr) continue;
    at::Tensor stub = at::empty({0}, value.options());
    autograd::impl::set_gradient_edge(stub, autograd::impl::gradient_edge(value));
    field(edges, f) = stub;
  }
  return edges;
}

StepLosses forward_backward(Model& model, const Batch& batch, double head_seed, const LossSeeds& seeds) {
  at::AutoGradMode grad_mode(true);
  Runner runner{model, batch, head_seed, /*training=*/true};
  runner.forward();
  runner.backward(seeds);
  return runner.losses;
}

StepLosses evaluate(Model& model, const Batch& batch) {
  at::NoGradGuard no_grad;
  Runner runner{model, batch, 0.0, /*training=*/false};
  runner.forward();
  return runner.losses;
}

}  // namespace trireme::nn
