#include "train/checkpoint/training_tensors.h"

#include <array>
#include <functional>
#include <set>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/parameters.h"
#include "parallel/stage_context.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace trireme::train {
namespace {

std::array<std::string, 3> optimizer_names(const std::string& parameter) {
  return {"optimizer.exp_avg." + parameter, "optimizer.exp_avg_sq." + parameter, master_name(parameter)};
}

using Wanted = std::function<bool(const nn::Parameter&, const nn::Piece&)>;

std::vector<NamedTensor> collect(const std::vector<nn::Parameter*>& parameters, const AdamW* optimizer,
                                 const Wanted& wanted) {
  std::vector<NamedTensor> out;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) out.push_back({name, tensor});
  };
  for (const nn::Parameter* parameter : parameters) {
    for (const nn::Piece& piece : parameter->pieces) {
      if (!wanted(*parameter, piece)) continue;
      const std::string& name = piece.spec.name;
      add(name, parameter->piece_value(piece).detach());
      if (!optimizer) continue;
      const AdamW::PieceState state = optimizer->piece_state(*parameter, piece);
      const auto [exp_avg, exp_avg_sq, master] = optimizer_names(name);
      add(exp_avg, state.exp_avg);
      add(exp_avg_sq, state.exp_avg_sq);
      add(master, state.master);
    }
  }
  return out;
}

template <class F>
void for_each_selection_bias(nn::Model& model, F&& action) {
  const model::LayerRange& layers = model.hosted().layers;
  if (!model.spec().moe.router.selection_bias) return;
  for (int layer = layers.first_layer; layer < layers.first_layer + layers.num_layers; ++layer) {
    if (model.spec().is_moe(layer)) action(layer, model.selection_bias(layer));
  }
}

std::vector<NamedTensor> with_selection_biases(std::vector<NamedTensor> tensors, nn::Model& model) {
  for_each_selection_bias(model, [&](int layer, at::Tensor& bias) {
    tensors.push_back({selection_bias_name(layer), bias});
  });
  return tensors;
}

}  // namespace

std::string master_name(const std::string& parameter) {
  return "optimizer.master." + parameter;
}
std::string selection_bias_name(int layer) {
  return plan::selection_bias_name(layer);
}

std::vector<NamedTensor> hosted_tensors(const std::vector<nn::Parameter*>& parameters, const AdamW* optimizer) {
  return collect(parameters, optimizer, [](const nn::Parameter&, const nn::Piece&) { return true; });
}

std::vector<NamedTensor> owned_tensors(const std::vector<nn::Parameter*>& parameters, const AdamW* optimizer,
                                       const Ownership& ownership) {
  return collect(parameters, optimizer, [&](const nn::Parameter& parameter, const nn::Piece& piece) {
    return ownership.owns(parameter, piece);
  });
}

std::vector<NamedTensor> hosted_tensors(nn::Model& model, const AdamW* optimizer) {
  return with_selection_biases(hosted_tensors(model.parameters(), optimizer), model);
}

std::vector<NamedTensor> owned_tensors(nn::Model& model, const AdamW* optimizer, const Ownership& ownership) {
  std::vector<NamedTensor> tensors = owned_tensors(model.parameters(), optimizer, ownership);
  return ownership.owns_dense() ? with_selection_biases(std::move(tensors), model) : tensors;
}

void check_tensors(const CheckpointReader& reader, const plan::RunSpec& run) {
  const at::ScalarType dtype = parallel::to_scalar_type(run.device.dtype), wide = master_dtype(dtype);
  const plan::FrozenParameters now(run.train.freeze), before = frozen_in(reader);
  for (const model::ParameterSpec& parameter : model::parameters(run.model)) {
    reader.expect(parameter.name, dtype, parameter.shape);
    if (!now.empty() && now.has(parameter.name)) continue;
    const auto [exp_avg, exp_avg_sq, master] = optimizer_names(parameter.name);
    if (!before.empty() && before.has(parameter.name) && !reader.has(exp_avg)) continue;
    reader.expect(exp_avg, wide, parameter.shape);
    reader.expect(exp_avg_sq, wide, parameter.shape);
    if (wide != dtype) reader.expect(master, wide, parameter.shape);
  }
}

void resume(const CheckpointReader& reader, nn::Model& model, AdamW& optimizer) {
  reader.check_model(model.spec());
  std::vector<NamedTensor> tensors = hosted_tensors(model, &optimizer);
  const plan::FrozenParameters before = frozen_in(reader);
  const auto without_state = [&](const nn::Piece& piece) {
    return !before.empty() && before.has(piece.spec.name) && !reader.has("optimizer.exp_avg." + piece.spec.name);
  };
  std::set<std::string> absent;
  for (const nn::Parameter* parameter : model.parameters())
    for (const nn::Piece& piece : parameter->pieces)
      if (without_state(piece))
        for (const std::string& name : optimizer_names(piece.spec.name)) absent.insert(name);
  std::erase_if(tensors, [&](const NamedTensor& t) { return absent.contains(t.name); });
  reader.load(tensors);
  for (const nn::Parameter* parameter : model.parameters())
    for (const nn::Piece& piece : parameter->pieces)
      if (without_state(piece)) optimizer.start_piece(*parameter, piece);
  optimizer.set_num_steps(reader.step());
}

plan::FrozenParameters frozen_in(const CheckpointReader& reader) {
  const auto found = reader.state().json().find("frozen");
  if (found == reader.state().json().end()) return {};
  std::vector<std::string> patterns;
  const auto fail = [&] {
    throw ConfigError({.file = (reader.folder() / state_file).string(), .key = "frozen", .value = found->dump(),
                       .allowed = "must be a list of patterns"});
  };
  if (!found->is_array()) fail();
  for (const nlohmann::json& pattern : *found) {
    if (!pattern.is_string()) fail();
    patterns.push_back(pattern.get<std::string>());
  }
  return plan::FrozenParameters(std::move(patterns));
}

void load_model(const WeightSource& source, nn::Model& model) {
  load_weights(source, model.spec(), model.parameters());
  at::NoGradGuard no_grad;
  for_each_selection_bias(model, [&](int layer, at::Tensor& bias) {
    const at::Tensor found = source.selection_bias(layer);
    if (found.defined()) bias.copy_(found);
  });
}

void start_from(const WeightSource& source, nn::Model& model, AdamW& optimizer) {
  load_model(source, model);
  optimizer.adopt_values();
}

}  // namespace trireme::train
