// A parameter's tensor in a Hugging Face checkpoint, for the families that transformers knows. Both keep weights as
// (out, in) and rotate the two halves of a head, as we do: tensors are copied as they are.
#pragma once
#include <string>

#include "model/model_spec.h"
#include "model/parameters.h"

namespace trireme::train {

// "layers.3.experts.5.gate.weight" -> Mixtral: "model.layers.3.block_sparse_moe.experts.5.w1.weight" (down is w2, up
// w3), Qwen3-MoE: "model.layers.3.mlp.experts.5.gate_proj.weight". A bug for a parameter that the family doesn't have.
std::string hf_name(const model::ParameterSpec& parameter, model::Family family);

// transformers 5 keeps all experts of a layer in two tensors in memory, and some tools save them so:
//   model.layers.3.mlp.experts.gate_up_proj (experts, 2 * expert_ffn, hidden): the gate's rows first
//   model.layers.3.mlp.experts.down_proj    (experts, hidden, expert_ffn)
struct FusedExpert {
  std::string name;
  std::int64_t first_row = 0;  // of the expert's matrix
};
FusedExpert hf_fused_expert(const model::ParameterSpec& parameter, int expert_ffn);

// Name of the router in that form: both families call the layer `mlp`.
std::string hf_fused_router(int layer);

}  // namespace trireme::train
