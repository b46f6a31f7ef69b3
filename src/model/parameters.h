// Every parameter of a model under its global name, whoever holds it. The names are the checkpoint's tensor names and
// the keys of initial values, so they never depend on a layout.
//
//   embed.weight                        (vocab, hidden)
//   positions.weight                    (learned_positions, hidden)
//   layers.L.attention_norm.weight      (hidden)                     every norm: .bias, too, where they are layer norms
//   layers.L.attention.q.weight         (heads*head_dim, hidden)     .k, .v likewise; .bias where the spec has one
//   layers.L.attention.q_a.weight       (q_lora_rank, hidden)        in place of q: .q_a_norm.weight, .q_b.weight
//   layers.L.attention.kv_a.weight      (kv_lora_rank + qk_rope_dim, hidden)   latent: in place of k and v, with
//   layers.L.attention.kv_b.weight      (heads*(qk_nope_dim + v_head_dim), kv_lora_rank)   .kv_a_norm.weight
//   layers.L.attention.gate.weight      (heads*v_head_dim, hidden)   output gate
//   layers.L.attention.o.weight         (hidden, heads*v_head_dim)
//   layers.L.attention.q_norm.weight    (head_dim)                   .k_norm; over all heads where they are joint
//   layers.L.attention.sinks            (heads)
//   layers.L.mixer.in.weight ...        in place of attention: .convolution, .decay, .step_bias, .skip, .norm, .out
//   layers.L.post_attention_norm.weight (hidden)                     sandwich norms
//   layers.L.ffn_norm.weight            (hidden)
//   layers.L.router.weight              (experts, hidden)            .bias
//   layers.L.latent_in.weight           (latent_dim, hidden)         and latent_out, its transpose
//   layers.L.experts.E.gate.weight      (expert_ffn, hidden)         .up; no gate where the model isn't gated; biases
//   layers.L.experts.E.down.weight      (hidden, expert_ffn)
//   layers.L.shared.gate.weight ...     as an expert, of width shared_ffn
//   layers.L.shared_gate.weight         (1, hidden)
//   layers.L.mlp.gate.weight ...        as an expert, of width dense_ffn
//   layers.L.post_ffn_norm.weight       (hidden)
//   mtp.D.embedding_norm.weight ...     .hidden_norm, .projection.weight (hidden, 2 hidden), a layer, .final_norm
//   final_norm.weight                   (hidden)
//   head.weight                         (vocab, hidden)              absent when tied
//
// DeepSeek-V4's further ones (low-rank outputs, compressors, index, residual streams) are named in mixer_parameters.cpp
// and parameter_lister.h.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "model/segment.h"

namespace trireme::model {

enum class Init { normal, ones, zeros };

struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;  // weights are (out, in)
  int layer = -1;                   // -1: embed, final_norm, head; num_layers and up: MTP blocks
  Segment segment = Segment::none;  // whose backward produces its gradient
  int expert = -1;                  // global expert id of a routed expert's parameter
  Init init = Init::normal;
  bool weight_decay = true;  // matrices yes; norms, biases no
  bool operator==(const ParameterSpec&) const = default;

  std::int64_t count() const;
};

// In the order of the list above: embed, layers by number, final_norm, head; experts by id.
std::vector<ParameterSpec> parameters(const ModelSpec& spec);

// Of the model without its MTP blocks, as published counts are (parameter_parts.h counts with them, and by part).
struct ParameterCounts {
  std::int64_t total = 0;
  std::int64_t active = 0;                    // used by one token: top-k of the routed experts; both embeddings
  std::int64_t active_without_embedding = 0;  // the same without an untied input embedding, which is only looked up
  std::int64_t active_matmul = 0;  // of these, what multiplies activations: no embedding lookup, no norms or biases
  std::int64_t routed_experts = 0;
};
ParameterCounts count_parameters(const ModelSpec& spec);

// flops_per_token() under its default convention (flops.h): training, causal attention, MTP and head included,
// recomputation not (model FLOPs, as in PaLM appendix B).
double training_flops_per_token(const ModelSpec& spec, std::int64_t sequence_length);

}  // namespace trireme::model
