// Builds the stored parameters of what a rank hosts: which named parameters are here, and how they are fused.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "nn/model.h"

namespace trireme::nn {

// The parameters of one layer by role; null where the layer has none. Legend: H query heads, G key/value heads,
// h head_dim, D hidden, F ffn, E hosted experts.
struct LayerParameters {
  Parameter* attention_norm = nullptr;  // (D)
  Parameter* qkv = nullptr;             // ((H + 2G) h, D)
  Parameter* qkv_bias = nullptr;        // ((H + 2G) h)
  Parameter* o = nullptr;               // (D, H h)
  Parameter* o_bias = nullptr;          // (D)
  Parameter* q_norm = nullptr;          // (h)
  Parameter* k_norm = nullptr;          // (h)
  Parameter* ffn_norm = nullptr;        // (D)
  Parameter* router = nullptr;          // (all experts, D)
  Parameter* gate_up = nullptr;         // (E, 2F, D): an expert's gate rows, then its up rows
  Parameter* down = nullptr;            // (E, D, F)
  Parameter* dense_gate_up = nullptr;   // (2F, D): the shared expert's, or the dense layer's
  Parameter* dense_down = nullptr;      // (D, F)
};

struct EndParameters {
  Parameter* embed = nullptr;       // (V, D)
  Parameter* final_norm = nullptr;  // (D)
  Parameter* head = nullptr;        // (V, D); the same as embed when tied and both ends are here
};

struct ParameterStore {
  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> all;          // in the order of model::parameters
  std::vector<LayerParameters> layers;  // by layer - part.first_layer
  EndParameters ends;
};

ParameterStore make_parameters(const model::ModelSpec& spec, const Hosted& hosted, const ModelOptions& options);

// Adds a gradient to the accumulator, which whoever trains has bound; a bug where there is none.
void add_gradient(Parameter& parameter, const at::Tensor& gradient);
at::Tensor& bound_gradient(Parameter& parameter);

// Draws one piece in float32 from (seed, its name) and writes it, rounded, into the stored tensor.
void initialise_piece(Parameter& parameter, const Piece& piece, std::uint64_t seed, double init_std);

}  // namespace trireme::nn
