// Router scores, selection, auxiliary losses and their gradients, and the order of rows. Legend as in nn/router.h,
// which defines the losses; a piece is a sequence, or the micro-batch.
#pragma once
#include <cstdint>
#include <vector>

#include "model/model_spec.h"

namespace trireme::nn::cpu {

// A tile of tokens: the chosen experts (rows, K), best first, equal scores to the lower id, and their weights (rows,
// K). `bias` (E) may be null.
template <class T>
void route_rows(const model::RouterSpec& spec, std::int64_t num_experts, const float* bias, std::int64_t rows,
                const T* logits, std::int64_t* experts, T* weights);

// Gradient of the auxiliary loss with respect to prob_te of any valid token of a piece: E count_pe / (K T_p^2), (P, E).
// The loss is therefore the sum over valid tokens of this times prob_te. `valid` may be null.
std::vector<double> aux_slopes(const model::RouterSpec& spec, std::int64_t num_experts, std::int64_t tokens,
                               std::int64_t pieces, const std::int64_t* experts, const bool* valid);

struct RouterLosses {
  double aux = 0, z = 0;
};

// Of one token with the slopes of its piece (null: no auxiliary loss).
template <class T>
RouterLosses router_losses(const model::RouterSpec& spec, std::int64_t num_experts, const T* logits,
                           const double* slopes);

struct RouterSeeds {
  double aux = 0, z = 0;  // gradients of the objective with respect to the two losses
};

// A token's dlogits (E) from the gradient of its weights (K) and of the losses it takes part in.
template <class T>
void route_row_backward(const model::RouterSpec& spec, std::int64_t num_experts, const T* logits,
                        const std::int64_t* experts, const T* dweights, const double* slopes, const RouterSeeds& seeds,
                        T* dlogits);

// order and inverse (R) of slots sorted by (expert, slot); counts (E).
void sort_slots(const std::int64_t* experts, std::int64_t slots, std::int64_t num_experts, std::int64_t* order,
                std::int64_t* inverse, std::vector<std::int64_t>& counts);

}  // namespace trireme::nn::cpu
