// The whole model on one device, segment by segment as the pipeline runs it: what layouts are compared with, and what
// the benchmark times. All experts must be local (whole_model: every layer, both ends, every expert).
#pragma once
#include <vector>

#include "nn/model.h"

namespace trireme::nn {

Hosted whole_model(const model::ModelSpec& spec);

struct StepLosses {
  double loss = 0;      // sums over the micro-batch, without coefficients
  double aux_loss = 0;  // and over the layers
  double z_loss = 0;
  std::vector<std::vector<std::int64_t>> counts_LE;  // rows of each expert, by MoE layer
};

// Adds every parameter's gradient to Parameter::grad.
StepLosses forward_backward(Model& model, const Batch& batch, double head_seed, const LossSeeds& seeds = {});

// Forward alone, without gradients.
StepLosses evaluate(Model& model, const Batch& batch);

}  // namespace trireme::nn
