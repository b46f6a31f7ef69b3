#include "nn/parameter_store.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/errors.h"
#include "base/rng.h"

namespace trireme::nn {
namespace {

using model::ParameterSpec;
using model::Segment;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string replace_end(const std::string& text, std::size_t length, const std::string& by) {
  return text.substr(0, text.size() - length) + by;
}

// The stored tensor that a named parameter is a piece of.
std::string stored_name(const ParameterSpec& p) {
  for (const char* kind : {"weight", "bias"})
    for (const char* projection : {"q", "k", "v"}) {
      const std::string end = fmt::format(".attention.{}.{}", projection, kind);
      if (ends_with(p.name, end)) return replace_end(p.name, end.size(), fmt::format(".attention.qkv.{}", kind));
    }
  std::string name = p.name;
  if (p.expert >= 0) {
    const std::string prefix = fmt::format("layers.{}.experts.", p.layer);
    name = prefix + name.substr(prefix.size() + std::to_string(p.expert).size() + 1);
  }
  for (const char* half : {".gate.weight", ".up.weight"})
    if (ends_with(name, half)) return replace_end(name, std::string(half).size(), ".gate_up.weight");
  return name;
}

bool is_here(const model::ModelSpec& spec, const ParameterSpec& p, const Hosted& hosted) {
  const model::LayerRange& layers = hosted.layers;
  if (p.layer >= 0) {
    if (p.layer < layers.first_layer || p.layer >= layers.first_layer + layers.num_layers) return false;
    return p.expert < 0 || std::binary_search(hosted.experts.begin(), hosted.experts.end(), p.expert);
  }
  if (p.segment == Segment::embed) return layers.embed || (layers.head && spec.tied_embeddings);
  return layers.head;
}

Parameter*& role(LayerParameters& layer, const std::string& name) {
  const std::pair<const char*, Parameter*&> roles[] = {{".attention_norm.weight", layer.attention_norm},
                                                       {".attention.qkv.weight", layer.qkv},
                                                       {".attention.qkv.bias", layer.qkv_bias},
                                                       {".attention.o.weight", layer.o},
                                                       {".attention.o.bias", layer.o_bias},
                                                       {".attention.q_norm.weight", layer.q_norm},
                                                       {".attention.k_norm.weight", layer.k_norm},
                                                       {".ffn_norm.weight", layer.ffn_norm},
                                                       {".router.weight", layer.router},
                                                       {".experts.gate_up.weight", layer.gate_up},
                                                       {".experts.down.weight", layer.down},
                                                       {".shared.gate_up.weight", layer.dense_gate_up},
                                                       {".shared.down.weight", layer.dense_down},
                                                       {".mlp.gate_up.weight", layer.dense_gate_up},
                                                       {".mlp.down.weight", layer.dense_down}};
  for (const auto& [end, slot] : roles)
    if (ends_with(name, end)) return slot;
  TRIREME_CHECK(false, "no role for parameter {}", name);
  return layer.qkv;
}

std::vector<std::int64_t> stored_shape(const Parameter& p, int num_experts) {
  std::int64_t rows = 0;
  for (const Piece& piece : p.pieces) rows += piece.spec.shape[0];
  std::vector<std::int64_t> shape = p.pieces.front().spec.shape;
  shape[0] = rows;
  if (p.expert) {
    shape[0] = rows / num_experts;
    shape.insert(shape.begin(), num_experts);
  }
  return shape;
}

}  // namespace

ParameterStore make_parameters(const model::ModelSpec& spec, const Hosted& hosted, const ModelOptions& options) {
  const model::LayerRange& layers = hosted.layers;
  TRIREME_CHECK(std::is_sorted(hosted.experts.begin(), hosted.experts.end()), "the hosted experts must be ascending");
  ParameterStore store;
  store.layers.resize(static_cast<std::size_t>(layers.num_layers));
  std::map<std::string, Parameter*> by_name;
  for (const ParameterSpec& p : model::parameters(spec)) {
    if (!is_here(spec, p, hosted)) continue;
    const std::string name = stored_name(p);
    auto [slot, is_new] = by_name.try_emplace(name, nullptr);
    if (is_new) {
      store.owned.push_back(std::make_unique<Parameter>());
      slot->second = store.owned.back().get();
      slot->second->name = name;
      slot->second->layer = p.layer;
      slot->second->segment = p.segment;
      slot->second->expert = p.expert >= 0;
      slot->second->weight_decay = p.weight_decay;
      store.all.push_back(slot->second);
    }
    Parameter& stored = *slot->second;
    const std::int64_t offset =
        stored.pieces.empty() ? 0 : stored.pieces.back().offset + stored.pieces.back().spec.count();
    stored.pieces.push_back({p, offset});
  }

  const auto tensor_options = at::TensorOptions().device(options.device).dtype(options.dtype);
  for (Parameter* p : store.all) {
    p->value = at::zeros(stored_shape(*p, static_cast<int>(hosted.experts.size())), tensor_options);
    p->value.set_requires_grad(true);
    if (p->layer >= 0) role(store.layers[static_cast<std::size_t>(p->layer - layers.first_layer)], p->name) = p;
  }
  const auto find = [&](const char* name) -> Parameter* {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  };
  if (layers.embed) store.ends.embed = find("embed.weight");
  if (layers.head) {
    store.ends.final_norm = find("final_norm.weight");
    store.ends.head = find(spec.tied_embeddings ? "embed.weight" : "head.weight");
    // A copy of the table that only the head uses: its gradient is complete after the head.
    if (spec.tied_embeddings && !layers.embed) store.ends.head->segment = Segment::head;
  }
  return store;
}

at::Tensor& bound_gradient(Parameter& parameter) {
  TRIREME_CHECK(parameter.grad.defined(), "parameter {} has no gradient buffer: bind one before the first backward",
                parameter.name);
  return parameter.grad;
}

void add_gradient(Parameter& parameter, const at::Tensor& gradient) {
  at::NoGradGuard no_grad;
  bound_gradient(parameter).add_(gradient.view_as(parameter.grad));
}

void initialise_piece(Parameter& parameter, const Piece& piece, std::uint64_t seed, double init_std) {
  at::NoGradGuard no_grad;
  at::Tensor target = parameter.piece_value(piece);
  if (piece.spec.init == model::Init::ones) {
    target.fill_(1);
    return;
  }
  if (piece.spec.init == model::Init::zeros) {
    target.zero_();
    return;
  }
  const std::int64_t count = piece.spec.count();
  const bool direct = target.device().is_cpu() && target.scalar_type() == at::kFloat;
  at::Tensor drawn = direct ? target : at::empty(piece.spec.shape, at::kFloat);
  float* data = drawn.data_ptr<float>();
  const std::uint64_t key = stream_key(seed, piece.spec.name);
  at::parallel_for(0, count, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    random_normal(key, static_cast<std::uint64_t>(begin), std::span<float>(data + begin, data + end), 0.0, init_std);
  });
  if (!direct) target.copy_(drawn);
}

}  // namespace trireme::nn
