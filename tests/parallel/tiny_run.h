// A tiny MoE run in any layout, with ranks as threads, and the single process that it must equal.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/model.h"
#include "parallel/setup.h"
#include "plan/plan.h"

namespace trireme::testing {

// hidden 32, 4 layers (the first dense), 8 experts top-2 and a shared one, vocabulary 99, sequences of 8 tokens, 96 a
// step, sequence-level auxiliary loss and z-loss on.
plan::RunSpec tiny_run();

// The batch of sequences [first, first + count) of a step: a function of (step, sequence) only, so the same in every
// layout. Each sequence has two documents of varied length and some padding (document -1, weight 0) at its end.
nn::Batch tiny_batch(const plan::RunSpec& run, int step, std::int64_t first, std::int64_t count);

using NamedTensors = std::map<std::string, at::Tensor>;

struct Trace {
  NamedTensors gradients;      // of step 0, by global name, float64
  std::vector<double> losses;  // mean loss, by step
  std::vector<double> aux_losses, z_losses, norms;
  std::vector<std::map<int, std::vector<double>>> router_counts;  // by step and layer
  NamedTensors biases;                                            // selection biases at the end
};

struct TinyOptions {
  int steps = 1;
  double learning_rate = 3e-3;
  double clip = 1.0;
  // Changes the model after its initialisation (the same function of global names on every rank).
  std::function<void(nn::Model&)> adjust;
  // Changes the plan of a layout before it is executed.
  std::function<void(plan::Plan&)> change_plan;
  std::function<nn::Batch(const plan::RunSpec&, int step, std::int64_t first, std::int64_t count)> batch = tiny_batch;
};

// One process without executor, plan or fused kernels: the reference operators on `cuts` equal parts of the batch in
// turn, all segments in one autograd graph.
Trace run_single(const plan::RunSpec& run, const TinyOptions& options, int cuts = 1);

// The executor on mesh.world() threads. Checks that replicas agree in every gradient and sum.
Trace run_layout(const plan::RunSpec& run, const plan::Mesh& mesh, const TinyOptions& options);

// ||a - b|| / ||b||; 0 where both are zero.
double relative_error(const at::Tensor& a, const at::Tensor& b);
// The worst relative error over all names; fails the test when names differ.
double worst_error(const NamedTensors& a, const NamedTensors& b, std::string* name = nullptr);

}  // namespace trireme::testing
