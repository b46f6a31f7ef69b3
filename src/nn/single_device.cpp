#include "nn/single_device.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <numeric>

#include "base/errors.h"

namespace trireme::nn {

using model::Segment;

namespace {

struct Runner {
  Model& model;
  const Batch& batch;
  double head_seed;
  bool training;
  std::vector<Saved> saved;
  StepLosses losses;

  Boundary run(Segment segment, int layer, const Boundary& in) {
    const model::ModelSpec& spec = model.spec();
    Boundary out;
    if (training) {
      Model::Forward f = model.forward_saving(segment, layer, in, batch, head_seed);
      out = std::move(f.out);
      saved.push_back(std::move(f.saved));
    } else {
      out = model.forward(segment, layer, in, batch);
    }
    if (out.loss.defined()) losses.loss += out.loss.item<double>();
    if (segment == Segment::attention && spec.is_moe(layer)) {
      if (out.aux_loss.defined()) losses.aux_loss += out.aux_loss.item<double>();
      if (out.z_loss.defined()) losses.z_loss += out.z_loss.item<double>();
      losses.counts_LE.push_back(out.routing->counts_E);
    }
    return out;
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
    Boundary gradient;
    while (!saved.empty()) {
      Saved last = std::move(saved.back());
      saved.pop_back();
      gradient = model.backward(std::move(last), gradient, seeds);
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

StepLosses forward_backward(Model& model, const Batch& batch, double head_seed, const LossSeeds& seeds) {
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
