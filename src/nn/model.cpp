#include "nn/model.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "base/errors.h"
#include "nn/composite.h"
#include "nn/fused.h"
#include "nn/parameter_store.h"

namespace trireme::nn {

using model::Segment;

struct Model::State {
  model::ModelSpec spec;
  Hosted hosted;
  ModelOptions options;
  ParameterStore store;
  RotaryTable rotary;
  std::vector<at::Tensor> selection_biases;  // by layer - first_layer

  SegmentContext context(Segment segment, int layer) {
    if (segment == Segment::embed || segment == Segment::head) layer = -1;
    SegmentContext c{.spec = spec, .options = options, .layer = layer, .ends = &store.ends, .rotary = &rotary};
    if (layer < 0) return c;
    const model::LayerRange& layers = hosted.layers;
    const int i = layer - layers.first_layer;
    TRIREME_CHECK(i >= 0 && i < layers.num_layers, "layer {} is not in [{}, {})", layer, layers.first_layer,
                  layers.first_layer + layers.num_layers);
    c.parameters = &store.layers[static_cast<std::size_t>(i)];
    c.selection_bias_E = selection_biases[static_cast<std::size_t>(i)];
    return c;
  }
};

Model::Model(const model::ModelSpec& spec, Hosted hosted, ModelOptions options) : state_(std::make_unique<State>()) {
  state_->spec = spec;
  state_->hosted = std::move(hosted);
  state_->options = options;
  state_->store = make_parameters(state_->spec, state_->hosted, state_->options);
  state_->rotary = {.theta = spec.attention.rope_theta, .head_dim = spec.attention.head_dim, .dtype = options.dtype};
  const model::LayerRange& layers = state_->hosted.layers;
  state_->selection_biases.resize(static_cast<std::size_t>(layers.num_layers));
  for (int i = 0; i < layers.num_layers; ++i)
    if (spec.is_moe(layers.first_layer + i) && spec.moe.router.selection_bias)
      state_->selection_biases[static_cast<std::size_t>(i)] =
          at::zeros({spec.moe.num_experts}, at::TensorOptions().device(options.device).dtype(at::kFloat));
}

Model::~Model() = default;

const model::ModelSpec& Model::spec() const {
  return state_->spec;
}
const Hosted& Model::hosted() const {
  return state_->hosted;
}
const ModelOptions& Model::options() const {
  return state_->options;
}
const std::vector<Parameter*>& Model::parameters() {
  return state_->store.all;
}

at::Tensor& Model::selection_bias(int layer) {
  const model::LayerRange& layers = state_->hosted.layers;
  const int i = layer - layers.first_layer;
  TRIREME_CHECK(i >= 0 && i < layers.num_layers, "layer {} is not here", layer);
  return state_->selection_biases[static_cast<std::size_t>(i)];
}

void Model::initialise(std::uint64_t seed) {
  for (Parameter* p : state_->store.all)
    for (const Piece& piece : p->pieces) initialise_piece(*p, piece, seed, state_->spec.init_std);
}

namespace {

Boundary run_fused(const SegmentContext& c, Segment segment, const Boundary& in, const Batch& batch, double head_seed,
                   Saved* saved) {
  const at::NoGradGuard no_grad;
  switch (segment) {
    case Segment::embed:
      return fused::embed(c, in, batch, saved);
    case Segment::attention:
      return fused::attention(c, in, batch, saved);
    case Segment::shared:
      return fused::shared(c, in, saved);
    case Segment::experts:
      return fused::experts(c, in, saved);
    case Segment::combine:
      return fused::combine(c, in, saved);
    case Segment::mlp:
      return fused::mlp(c, in, saved);
    case Segment::head:
      return fused::head(c, in, batch, head_seed, saved);
    case Segment::dispatch:
    case Segment::none:
      break;
  }
  TRIREME_CHECK(false, "segment {} is not computed by nn", model::name_of(segment));
  return {};
}

Boundary run_composite(const SegmentContext& c, Segment segment, const Boundary& in, const Batch& batch,
                       double head_seed) {
  switch (segment) {
    case Segment::embed:
      return composite::embed(c, in, batch);
    case Segment::attention:
      return composite::attention(c, in, batch);
    case Segment::shared:
      return composite::shared(c, in);
    case Segment::experts:
      return composite::experts(c, in);
    case Segment::combine:
      return composite::combine(c, in);
    case Segment::mlp:
      return composite::mlp(c, in);
    case Segment::head:
      return composite::head(c, in, batch, head_seed);
    case Segment::dispatch:
    case Segment::none:
      break;
  }
  TRIREME_CHECK(false, "segment {} is not computed by nn", model::name_of(segment));
  return {};
}

}  // namespace

Boundary Model::forward(Segment segment, int layer, const Boundary& in, const Batch& batch, double head_seed) {
  const SegmentContext c = state_->context(segment, layer);
  return fused::applies(state_->options) ? run_fused(c, segment, in, batch, head_seed, nullptr)
                                         : run_composite(c, segment, in, batch, head_seed);
}

Model::Forward Model::forward_saving(Segment segment, int layer, const Boundary& in, const Batch& batch,
                                     double head_seed) {
  const SegmentContext c = state_->context(segment, layer);
  Forward f;
  f.saved.segment = segment;
  f.saved.layer = layer;
  if (fused::applies(state_->options)) {
    f.out = run_fused(c, segment, in, batch, head_seed, &f.saved);
    return f;
  }
  const at::AutoGradMode grad(true);
  const std::vector<Field> written = fields_written(state_->spec, segment, layer);
  const Boundary opened = f.saved.graph.open(in, fields_read(state_->spec, segment, layer));
  f.out = run_composite(c, segment, opened, batch, head_seed);
  f.saved.graph.close(f.out, written);
  for (const Field name : {Field::aux_loss, Field::z_loss, Field::loss, Field::x, Field::normed, Field::rows,
                           Field::scores, Field::shared}) {
    at::Tensor& value = field(f.out, name);
    if (!value.defined()) continue;
    // What was written leaves without its history, and what passed through as it came.
    const bool own = std::find(written.begin(), written.end(), name) != written.end();
    value = own ? value.detach() : field(in, name);
  }
  return f;
}

Boundary Model::backward(Saved&& saved, const Boundary& gradient, const LossSeeds& seeds) {
  if (!saved.graph.empty()) return saved.graph.backward(gradient, seeds);
  const at::NoGradGuard no_grad;
  const Segment segment = saved.segment;
  const int layer = saved.layer;
  const SegmentContext c = state_->context(segment, layer);
  return passed_back(state_->spec, segment, layer, gradient,
                     fused::backward(c, std::move(saved), gradient, seeds, nullptr));
}

Model::InputGradient Model::backward_input(Saved&& saved, const Boundary& gradient, const LossSeeds& seeds) {
  InputGradient result{.work = {.segment = saved.segment, .layer = saved.layer}};
  if (!saved.graph.empty()) {
    result.gradient = saved.graph.backward(gradient, seeds);
    return result;
  }
  const at::NoGradGuard no_grad;
  const SegmentContext c = state_->context(saved.segment, saved.layer);
  const Boundary own = fused::backward(c, std::move(saved), gradient, seeds, &result.work);
  result.gradient = passed_back(state_->spec, result.work.segment, result.work.layer, gradient, own);
  return result;
}

void Model::backward_weight(WeightWork&& work) {
  if (work.empty()) return;
  const at::NoGradGuard no_grad;
  const SegmentContext c = state_->context(work.segment, work.layer);
  fused::backward_weight(c, std::move(work));
}

Boundary Model::extend(Segment segment, int layer, const Boundary& in, const NewTokens& tokens, KeyValueCache& cache) {
  at::NoGradGuard no_grad;
  TRIREME_CHECK(segment != Segment::head, "logits of new tokens are project()'s");
  if (segment != Segment::attention) return forward(segment, layer, in, tokens.batch);
  const SegmentContext c = state_->context(segment, layer);
  KeyValueCache::Layer& kept = cache.layers.at(static_cast<std::size_t>(layer - state_->hosted.layers.first_layer));
  return fused::applies(state_->options) ? fused::extend_attention(c, in, tokens, kept)
                                         : composite::extend_attention(c, in, tokens, kept);
}

at::Tensor Model::project(const at::Tensor& x_TD) {
  return composite::logits(state_->context(Segment::head, -1), x_TD);
}

at::Tensor logits(Model& model, const Batch& batch) {
  const model::ModelSpec& spec = model.spec();
  Boundary b = model.forward(Segment::embed, -1, {}, batch);
  for (int layer = 0; layer < spec.num_layers; ++layer) {
    for (const Segment segment : model::computing_segments(spec, layer)) {
      if (segment == Segment::experts) b.received_counts_PE = b.routing->counts_E;
      b = model.forward(segment, layer, b, batch);
    }
  }
  return model.project(b.x_TD);
}

}  // namespace trireme::nn
