// Gradients in flat buffers, one per bucket of the plan: accumulated in max(float32, dtype), reduced whole. Dense
// buckets over dp, buckets of routed experts over edp (the data of a whole ep group has already come to the experts).
#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "nn/model.h"
#include "plan/plan.h"

namespace trireme::parallel {

class GradientBuckets {
 public:
  // Binds Parameter::grad of every parameter to a view of its bucket. A parameter in no bucket is a bug.
  GradientBuckets(nn::Model& model, const plan::StagePlan& stage, at::ScalarType reduce_dtype);

  void zero();
  // Sums a bucket over the group, in reduce_dtype.
  void reduce(int bucket, comm::Group& group, const std::string& operation);
  // Sums the gradient of the embedding matrix over the first and last stage. Where this stage has none: nothing.
  void reduce_embedding(comm::Group& group, const std::string& operation);

  int size() const { return static_cast<int>(flat_.size()); }
  const at::Tensor& flat(int bucket) const { return flat_.at(bucket); }
  const std::vector<nn::Parameter*>& parameters(int bucket) const { return parameters_.at(bucket); }

 private:
  void sum(at::Tensor& tensor, comm::Group& group, const std::string& operation) const;

  nn::Model& model_;
  at::ScalarType reduce_dtype_;
  std::vector<at::Tensor> flat_;
  std::vector<std::vector<nn::Parameter*>> parameters_;
};

}  // namespace trireme::parallel
