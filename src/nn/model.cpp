#include "nn/model.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

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

  SegmentContext context(int layer) {
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

Boundary Model::forward(Segment segment, int layer, const Boundary& in, const Batch& batch, double head_seed) {
  const bool end = segment == Segment::embed || segment == Segment::head;
  const SegmentContext c = state_->context(end ? -1 : layer);
  const bool fast = fused::applies(state_->options);
  switch (segment) {
    case Segment::embed:
      return fast ? fused::embed(c, in, batch) : composite::embed(c, in, batch);
    case Segment::attention:
      return fast ? fused::attention(c, in, batch) : composite::attention(c, in, batch);
    case Segment::shared:
      return fast ? fused::shared(c, in) : composite::shared(c, in);
    case Segment::experts:
      return fast ? fused::experts(c, in) : composite::experts(c, in);
    case Segment::combine:
      return fast ? fused::combine(c, in) : composite::combine(c, in);
    case Segment::mlp:
      return fast ? fused::mlp(c, in) : composite::mlp(c, in);
    case Segment::head:
      return fast ? fused::head(c, in, batch, head_seed) : composite::head(c, in, batch, head_seed);
    case Segment::dispatch:
    case Segment::none:
      break;
  }
  TRIREME_CHECK(false, "segment {} is not computed by nn", model::name_of(segment));
  return {};
}

Boundary Model::extend(Segment segment, int layer, const Boundary& in, const NewTokens& tokens, KeyValueCache& cache) {
  at::NoGradGuard no_grad;
  TRIREME_CHECK(segment != Segment::head, "logits of new tokens are project()'s");
  if (segment != Segment::attention) return forward(segment, layer, in, tokens.batch);
  const SegmentContext c = state_->context(layer);
  KeyValueCache::Layer& kept = cache.layers.at(static_cast<std::size_t>(layer - state_->hosted.layers.first_layer));
  return fused::applies(state_->options) ? fused::extend_attention(c, in, tokens, kept)
                                         : composite::extend_attention(c, in, tokens, kept);
}

at::Tensor Model::project(const at::Tensor& x_TD) {
  return composite::logits(state_->context(-1), x_TD);
}

Boundary backward(const model::ModelSpec& spec, Segment segment, int layer, const Boundary& in, const Boundary& out,
                  const Boundary& grad_out, const LossSeeds& seeds) {
  namespace autograd = torch::autograd;
  autograd::edge_list roots, wanted;
  autograd::variable_list root_gradients;
  for (Field f : fields_written(spec, segment, layer)) {
    const at::Tensor& value = field(out, f);
    if (!value.defined() || !value.requires_grad()) continue;
    at::Tensor gradient = field(grad_out, f);
    if (f == Field::aux_loss) gradient = at::full({}, seeds.aux_loss, value.options());
    if (f == Field::z_loss) gradient = at::full({}, seeds.z_loss, value.options());
    if (f == Field::loss) gradient = at::ones({}, value.options());  // its seed is in it since the forward
    if (!gradient.defined()) continue;
    roots.push_back(autograd::impl::gradient_edge(value));
    root_gradients.push_back(gradient);
  }
  Boundary result;
  std::vector<Field> fields;
  for (Field f : fields_read(spec, segment, layer)) {
    const at::Tensor& value = field(in, f);
    if (!value.defined() || !value.requires_grad()) continue;
    fields.push_back(f);
    wanted.push_back(autograd::impl::gradient_edge(value));
  }
  if (roots.empty()) return result;
  auto gradients = autograd::Engine::get_default_engine().execute(roots, root_gradients, /*keep_graph=*/false,
                                                                  /*create_graph=*/false,
                                                                  /*accumulate_grad=*/wanted.empty(), wanted);
  for (std::size_t i = 0; i < fields.size(); ++i) field(result, fields[i]) = gradients[i];
  return result;
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
