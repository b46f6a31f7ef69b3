// What a step gives back, and what whoever trains supplies to it.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "nn/boundary.h"
#include "plan/timeline.h"

namespace trireme::parallel {

// Sums over the whole global batch, the same on every rank of every layout (float64 reductions over the world).
struct StepSums {
  double loss = 0;          // sum of weight * cross-entropy over the targets
  double weight = 0;        // sum of weights: loss / weight is the mean loss
  double tokens = 0;        // tokens that are not padding
  double aux_loss = 0;      // sum over MoE layers and over sequences (or micro-batches), without coefficient
  double aux_samples = 0;   // sequences (or micro-batches, as router.aux_loss_level says) in the global batch
  double z_loss = 0;        // sum over MoE layers and tokens, without coefficient
  double stop = 0;          // sum of the ranks' stop flags
  double squared_norm = 0;  // of all gradients, each owner once
  // Rows that each expert got in the step, over the data ranks, for the MoE layers of this rank's stage.
  std::map<int, std::vector<double>> router_counts;
  // Highest load of an expert over the mean, for every MoE layer of the model (index: layer - num_dense_layers).
  std::vector<double> load_ratio;
  std::vector<int> busiest_expert;  // the one with that load (the first of several), likewise

  double mean_loss() const { return weight > 0 ? loss / weight : 0; }
  double mean_aux_loss() const { return aux_samples > 0 ? aux_loss / aux_samples : 0; }
  double mean_z_loss() const { return tokens > 0 ? z_loss / tokens : 0; }
};

// All are called on the compute thread, in the order of the plan's actions (the stop flag of a forward-only plan on the
// thread that reduces the sums). An empty one does nothing (or gives 0).
struct StepHooks {
  std::function<nn::Batch(int mb)> batch;  // tokens of a micro-batch, on the device; required
  std::function<double()>
      owned_sum_of_squares;           // of the reduced gradients that this rank owns (train/optim/ownership.h)
  std::function<double()> stop_flag;  // above 0: this rank wants to stop
  // Whether the step's update is made, asked before anything of it is: not even the selection biases move where it is
  // not. The answer must be the same on every rank. An empty one makes every update.
  std::function<bool(const StepSums& sums, double gradient_norm)> accepts_update;
  std::function<void(const StepSums& sums, double gradient_norm)> optimizer;
};

struct StepResult {
  plan::RankTimeline timeline;  // an action's duration is its span: from when its lane was free and its waits were done
  std::vector<double> expert_rows;  // of each forward action of routed experts, aligned with the actions, else 0; or empty
  StepSums sums;
  double gradient_norm = 0;
};

}  // namespace trireme::parallel
