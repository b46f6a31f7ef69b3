// The sums of a step on one rank, and their reductions: counts that seed the losses, losses, norm, flags, router
// counts. Every sum is contributed by exactly one stage and one owner, so reductions over the world are plain sums in
// float64.
#pragma once
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/model.h"
#include "parallel/stage_context.h"
#include "parallel/step.h"

namespace trireme::parallel {

class StepTotals {
 public:
  explicit StepTotals(const StageContext& context);

  void begin();
  void add_batch(const nn::Batch& batch);
  // Sums what add_batch has seen over the data ranks.
  void count_tokens(comm::Group& dp, const std::string& operation);

  // Gradient of the loss sum and of each auxiliary loss sum, the same in every layout: their means are over the global
  // batch (valid targets; sequences or micro-batches; tokens that are not padding). After count_tokens.
  double head_seed() const;
  nn::LossSeeds loss_seeds() const;

  // What a segment's (first) forward gave out: losses, and from attention the router's counts.
  void add_outputs(model::Segment segment, int layer, const nn::Boundary& out);
  void add_norm(double squared_norm, double stop);
  void reduce_counts(comm::Group& dp, const std::string& operation);
  void reduce_metrics(comm::Group& world, const std::string& operation);

  // bias += rate * sign(mean - count) for every MoE layer of the model's part whose bias is not frozen; after
  // reduce_counts.
  void update_selection_bias(nn::Model& model) const;

  const StepSums& sums() const { return sums_; }

 private:
  double aux_samples() const;  // sequences or micro-batches in the global batch

  const StageContext& context_;
  at::Tensor losses_;     // float64 on the device: loss, aux_loss, z_loss of this rank
  double num_valid_ = 0;  // sum of weights: this rank's, after count_tokens the global batch's
  double num_tokens_ = 0;
  double own_valid_ = 0, own_tokens_ = 0;
  bool counts_reduced_ = false;
  StepSums sums_;  // of this rank until they are reduced
};

}  // namespace trireme::parallel
