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
#include "nn/saved.h"

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

  // Runs a segment without a backward. `in` holds the fields that the segment reads; the result holds the fields that
  // it writes and passes the others through. `dispatch` is not computed here (communication); `combine` is the
  // computation after the communication, and ends a layer: of its boundary only x goes on. The losses are float64 sums
  // without coefficients: nn/router.h defines aux_loss and z_loss. Where plain operators run (ModelOptions::reference,
  // or nn/composite.h) and the caller has grad mode on, the result has autograd's history, back through inputs that ask
  // for a gradient, and parameters' gradients are added to Parameter::grad in its backward: the oracle of tests. A
  // head's gradient is made with its loss, of head_seed.
  Boundary forward(model::Segment segment, int layer, const Boundary& in, const Batch& batch, double head_seed = 0.0);

  // The same with a backward to come. The gradient of a parameter is added to Parameter::grad, which must be bound, by
  // the backward, and for `head` already here (head_seed = gradient of the loss sum): its backward hands on the stored
  // input gradient, so that logits exist for one chunk at a time and only once.
  struct Forward {
    Boundary out;
    Saved saved;
  };
  Forward forward_saving(model::Segment segment, int layer, const Boundary& in, const Batch& batch,
                         double head_seed = 0.0);

  // The backward of what `saved` comes from. `gradient` holds the gradients of the fields written; in the result those
  // of the fields read are in their place, and others have passed through. The halves in turn give the same bits as the
  // whole, which holds less memory; a parameter's gradients must be added in the same order.
  Boundary backward(Saved&& saved, const Boundary& gradient, const LossSeeds& seeds);
  struct InputGradient {
    Boundary gradient;
    WeightWork work;
  };
  InputGradient backward_input(Saved&& saved, const Boundary& gradient, const LossSeeds& seeds);
  void backward_weight(WeightWork&& work);

  // The same for tokens that follow what `cache` holds of their sequences: `in` and the result are of the new tokens,
  // and attention sees the cached ones, too. Writes the new ones' keys and values behind them; advance() counts them
  // once every layer has. No gradients, no auxiliary losses; `head` is project()'s.
  Boundary extend(model::Segment segment, int layer, const Boundary& in, const NewTokens& tokens, KeyValueCache& cache);

  // Final norm and projection of all tokens at once: logits (T, V). For tests and exports; training uses `head`.
  at::Tensor project(const at::Tensor& x_TD);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The whole model on one device: all segments in turn with one autograd graph, experts all local. Logits (T, V) for
// tests and for export checks.
at::Tensor logits(Model& model, const Batch& batch);

}  // namespace trireme::nn
