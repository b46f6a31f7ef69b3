// AdamW (Loshchilov and Hutter, 2019, algorithm 2; the arithmetic of torch.optim.AdamW): decoupled weight decay, first
// and second moments and master weights in max(float32, dtype of the parameter).
//
//   g = grad * grad_scale                          m += (1 - beta1) (g - m)       v = beta2 v + (1 - beta2) g^2
//   w = w (1 - lr * decay) - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
// decay is 0 where Parameter::weight_decay is false, unless decay_norms_and_biases says otherwise. A float32 or float64
// parameter is its own master: no copy. A frozen piece of a parameter has no state and is never written.
// On the CPU one fused pass in blocks shared by the threads; elementwise, so the result does not depend on their
// number. Elsewhere, and as the oracle, a composite of ATen operators in the same order: equal but for the last bit of
// the root. A step allocates nothing on the CPU.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/parameter.h"
#include "plan/frozen_parameters.h"

namespace trireme::train {

// Of moments and master weights: max(float32, dtype).
at::ScalarType master_dtype(at::ScalarType dtype);

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_norms_and_biases = false;
  plan::FrozenParameters frozen;
  bool reference = false;  // the composite path on every device
};

class AdamW {
 public:
  // The parameters stay alive as long as this. State is allocated (zeroed) here; masters copy the values of now.
  AdamW(std::vector<nn::Parameter*> parameters, const AdamWOptions& options);

  // One step: reads Parameter::grad (which must be bound, contiguous and in max(float32, dtype)), writes
  // Parameter::value. Does not zero the gradients. grad_scale multiplies every gradient: the clip factor.
  void step(double learning_rate, double grad_scale = 1.0);

  std::int64_t num_steps() const { return num_steps_; }       // t of the last step taken
  void set_num_steps(std::int64_t num) { num_steps_ = num; }  // after a resume

  // Bytes of masters (where they are copies) and moments.
  std::int64_t bytes() const;

  // State of a piece as views of the piece's shape. `master` is undefined where the value is its own master; all are
  // where the piece is frozen.
  struct PieceState {
    at::Tensor master, exp_avg, exp_avg_sq;
  };
  PieceState piece_state(const nn::Parameter& parameter, const nn::Piece& piece) const;

  // After the values were changed from outside (initial weights): masters become copies of the values again.
  void adopt_values();
  // The same for one piece, whose moments become zero.
  void start_piece(const nn::Parameter& parameter, const nn::Piece& piece);

 private:
  // Of a run of elements of a parameter: all of it, or what lies between frozen pieces. The tensors are flat.
  struct State {
    nn::Parameter* parameter = nullptr;
    std::int64_t begin = 0, count = 0;
    at::Tensor master;  // undefined: the value
    at::Tensor m, v;
    at::Tensor value() const;  // views of the parameter's
    at::Tensor grad() const;
  };
  struct Block {
    std::size_t state = 0;
    std::int64_t begin = 0, count = 0;  // in the state
  };
  template <class Real>
  void fused(const State& state, const Block& block, double learning_rate, double grad_scale) const;
  void composite(const State& state, double learning_rate, double grad_scale) const;
  double decay(const State& state) const {
    return state.parameter->weight_decay || options_.decay_norms_and_biases ? options_.weight_decay : 0.0;
  }

  AdamWOptions options_;
  std::vector<State> states_;
  std::vector<Block> blocks_;  // of the states on the CPU
  std::int64_t num_steps_ = 0;
};

}  // namespace trireme::train
