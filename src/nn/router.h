// Routing: which experts a token goes to and with which scores, and the order of the permuted rows.
// Legend: T tokens, E experts, K top-k, R = T * K rows, B sequences.
#pragma once
#include <memory>

#include <ATen/core/Tensor.h>

#include "model/model_spec.h"
#include "nn/boundary.h"

namespace trireme::nn {

struct RouterResult {
  at::Tensor scores_TK;   // weights of the chosen experts, in max(float32, dtype)
  at::Tensor experts_TK;  // int64
  at::Tensor aux_loss;    // float64 scalars; undefined where the coefficient is zero
  at::Tensor z_loss;
};

// Differentiable with respect to logits_TE (of the compute dtype). Equal scores go to the lower expert id.
// `valid_T` (undefined: all): false for padding, which is routed but outside the auxiliary losses.
// The losses are unweighted sums: aux_loss over the sequences (sequence level) of
//   E / (K T_s) * sum_e count_se * (1 / T_s) * sum_t prob_te
// with T_s, count_se and the sum over the sequence's valid tokens, prob the softmax or the normalised sigmoid scores
// (micro-batch level: one such term over all tokens); z_loss over the valid tokens of logsumexp(logits)^2.
// Sources: Switch Transformer eq. 4-6 (Fedus et al. 2022), DeepSeek-V3 eq. 17-20, ST-MoE eq. 5 (Zoph et al. 2022).
RouterResult route(const model::RouterSpec& spec, const at::Tensor& logits_TE, const at::Tensor& selection_bias_E,
                   const at::Tensor& valid_T, std::int64_t num_sequences);

// Rows sorted by (expert, token, slot).
std::shared_ptr<const Routing> make_routing(const at::Tensor& experts_TK, std::int64_t num_experts);

}  // namespace trireme::nn
