// SwiGLU feed-forward of one or many experts over blocks of rows:
//   out_r = score_r * (silu(gate_e x_r) * (up_e x_r)) down_e^T
// A block is a run of rows of one expert. Rows that came from several ranks lie source-major, so an expert has one
// block a source; nothing is re-sorted. Legend: R rows, D hidden, F ffn, E experts.
#pragma once
#include <cstdint>
#include <vector>

namespace trireme::nn::cpu {

struct Block {
  std::int64_t expert = 0, begin = 0, rows = 0;
};

// Blocks of `counts_PE`, source-major.
std::vector<Block> blocks_of(const std::vector<std::int64_t>& counts_PE, std::int64_t num_experts);

template <class T>
struct GatedWeights {
  std::int64_t num_experts = 1, hidden = 0, ffn = 0;
  const T* gate_up = nullptr;  // (E, 2F, D)
  const T* down = nullptr;     // (E, D, F)
};

// `scores` (R) and `residual` (R, D) may be null. `gate_up_R2F` keeps the pre-activations for the backward; null: a
// forward without one.
template <class T>
void gated_forward(const GatedWeights<T>& w, const std::vector<Block>& blocks, const T* x_RD, const T* scores_R,
                   const T* residual_RD, T* gate_up_R2F, T* out_RD);

// The backward in two halves. The gradient of the inputs overwrites gate_up_R2F by its gradient and leaves the scored
// activation, which the down weight's gradient needs, in `active_RF`.
template <class T>
struct GatedInputGradients {
  T* active_RF = nullptr;  // written
  T* x_RD = nullptr;       // written
  T* scores_R = nullptr;   // written; null without scores
};
template <class T>
void gated_backward_input(const GatedWeights<T>& w, const std::vector<Block>& blocks, const T* scores_R, T* gate_up_R2F,
                          const T* dout_RD, const GatedInputGradients<T>& gradients);

// Of the weights: added to accumulators of their shapes, of an expert all its blocks in order.
template <class T>
void gated_backward_weight(const GatedWeights<T>& w, const std::vector<Block>& blocks, const T* x_RD,
                           const T* dgate_up_R2F, const T* active_RF, const T* dout_RD, T* gate_up, T* down);

}  // namespace trireme::nn::cpu
