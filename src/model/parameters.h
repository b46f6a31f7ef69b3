// Every parameter of a model under its global name, whoever holds it. The names are the checkpoint's tensor names and
// the keys of initial values, so they never depend on a layout.
//
//   embed.weight                        (vocab, hidden)
//   layers.L.attention_norm.weight      (hidden)
//   layers.L.attention.q.weight         (heads*head_dim, hidden)     .k, .v likewise; .bias where the spec has one
//   layers.L.attention.o.weight         (hidden, heads*head_dim)
//   layers.L.attention.q_norm.weight    (head_dim)                   .k_norm
//   layers.L.ffn_norm.weight            (hidden)
//   layers.L.router.weight              (experts, hidden)
//   layers.L.experts.E.gate.weight      (expert_ffn, hidden)         .up
//   layers.L.experts.E.down.weight      (hidden, expert_ffn)
//   layers.L.shared.gate.weight ...     as an expert, of width shared_ffn
//   layers.L.mlp.gate.weight ...        as an expert, of width dense_ffn
//   final_norm.weight                   (hidden)
//   head.weight                         (vocab, hidden)              absent when tied
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
  int layer = -1;                   // -1: embed, final_norm, head
  Segment segment = Segment::none;  // whose backward produces its gradient
  int expert = -1;                  // global expert id of a routed expert's parameter
  Init init = Init::normal;
  bool weight_decay = true;         // matrices yes; norms, biases no
  bool operator==(const ParameterSpec&) const = default;

  std::int64_t count() const;
};

// In the order of the list above: embed, layers by number, final_norm, head; experts by id.
std::vector<ParameterSpec> parameters(const ModelSpec& spec);

struct ParameterCounts {
  std::int64_t total = 0;
  std::int64_t active = 0;           // used by one token: top-k of the routed experts
  std::int64_t active_matmul = 0;    // of these, what multiplies activations: no embedding lookup, no norms or biases
  std::int64_t routed_experts = 0;
};
ParameterCounts count_parameters(const ModelSpec& spec);

// Training FLOPs a token, forward and backward: 6 x active matmul parameters + causal attention (half of the square):
// 12 * seq * heads * head_dim / 2 a layer. Recomputation is not counted (model FLOPs, as in PaLM appendix B).
double training_flops_per_token(const ModelSpec& spec, std::int64_t sequence_length);

}  // namespace trireme::model
