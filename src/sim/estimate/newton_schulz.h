// The matmuls of Muon's orthogonalisation (Jordan et al. 2024): five steps of G = X X^T, X <- a X + (b G + c G^2) X.
#pragma once
#include "sim/estimate/setting.h"

namespace trireme::sim {

inline constexpr int newton_schulz_steps = 5;

// Of one matrix, s <= l its sides: each step multiplies s x l by l x s, s x s by s x s and s x s by s x l.
double newton_schulz_flops(double rows, double columns);

// Of the rank with the most where whole matrices lie with their owners. Experts: a rank's share of its stage's. Dense:
// every matrix on one of the data ranks; none has less than the mean, nor less than the largest matrix.
double busiest_owner_flops(const Setting& setting);

struct NewtonSchulzFlops {
  double dense = 0, largest_dense = 0;  // of a model's layers together, and of the largest matrix
  double experts = 0;
};
NewtonSchulzFlops newton_schulz_flops(const model::ModelSpec& spec);

}  // namespace trireme::sim
