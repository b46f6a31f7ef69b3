// The part of a model that one rank hosts, and its segments. Knows no ranks: it is told which layers, which ends and
// which experts are here.
#pragma once
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/layer_range.h"
#include "nn/boundary.h"
#include "nn/key_value_cache.h"
#include "nn/model_options.h"
#include "nn/parameter.h"

namespace trireme::nn {

// What a rank hosts of a model.
struct Hosted {
  model::LayerRange layers;
  std::vector<int> experts;  // global ids of the routed experts, ascending (the same in every layer)
};

class Model {
 public:
  Model(const model::ModelSpec& spec, Hosted hosted, ModelOptions options);
  ~Model();

  const model::ModelSpec& spec() const;
  const Hosted& hosted() const;
  const ModelOptions& options() const;

  // Every stored parameter, each once (a tied head and embedding in the same part are one), in the order of
  // model::parameters. The pointers stay valid for the model's life.
  const std::vector<Parameter*>& parameters();

  // Draws every piece from (seed, its name), in float32, then rounds to dtype: base/rng.h.
  void initialise(std::uint64_t seed);

  // Selection bias of an MoE layer (E; float32), undefined where the spec has none. Not a gradient parameter.
  at::Tensor& selection_bias(int layer);

  // Runs a segment with autograd as the caller's grad mode says. `in` holds the fields that the segment reads, as
  // leaves where their gradient is wanted; the result holds the fields that it writes and passes the others through.
  // `dispatch` is not computed here (communication); `combine` is the computation after the communication.
  //
  // The gradient of a parameter is added to Parameter::grad in the backward, never returned through autograd, and for
  // `head` already in the forward (training_seed = gradient of the loss sum; 0: evaluation, no gradient): its
  // backward hands on the stored input gradient, so that logits exist for one chunk at a time and only once.
  // A parameter without a bound `grad` is a bug in a backward (and in a head's forward with a seed); grad mode off, or
  // a head seed of zero, needs none. `combine` ends a layer: of its boundary only x goes on.
  // The losses are float64 sums without coefficients: nn/router.h defines aux_loss and z_loss.
  Boundary forward(model::Segment segment, int layer, const Boundary& in, const Batch& batch, double head_seed = 0.0);

  // The same for tokens that follow what `cache` holds of their sequences: `in` and the result are of the new tokens, and
  // attention sees the cached ones, too. Writes the new ones' keys and values behind them; advance() counts them once
  // every layer has. No gradients, no auxiliary losses; `head` is project()'s.
  Boundary extend(model::Segment segment, int layer, const Boundary& in, const NewTokens& tokens, KeyValueCache& cache);

  // Final norm and projection of all tokens at once: logits (T, V). For tests and exports; training uses `head`.
  at::Tensor project(const at::Tensor& x_TD);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Backward of one segment: runs autograd from the written fields of `out` (seeded by the same fields of `grad_out`;
// scalars aux_loss and z_loss by the given seeds; loss by what the head's forward was given) and returns the gradients
// of the read fields of `in`. Of `out` only the autograd edges are used, not the values.
struct LossSeeds {
  double aux_loss = 0;
  double z_loss = 0;
};
Boundary backward(const model::ModelSpec& spec, model::Segment segment, int layer, const Boundary& in,
                  const Boundary& out, const Boundary& grad_out, const LossSeeds& seeds);

// The whole model on one device: all segments in turn with one autograd graph, experts all local. Logits (T, V) for
// tests and for export checks.
at::Tensor logits(Model& model, const Batch& batch);

}  // namespace trireme::nn
