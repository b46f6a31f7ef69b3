#include "parallel/gradient_buckets.h"

#include <ATen/ATen.h>

#include "base/errors.h"
#include "parallel/stage_context.h"

namespace trireme::parallel {
namespace {

constexpr std::int64_t alignment = 16;  // elements: views start at a vector's width

bool holds(const plan::Bucket& bucket, const nn::Parameter& parameter, model::Segment segment) {
  if (bucket.expert != parameter.expert) return false;
  for (const plan::BucketPart& part : bucket.parts)
    if (part.layer == parameter.layer && part.segment == segment) return true;
  return false;
}

int bucket_of(const plan::StagePlan& stage, const nn::Parameter& parameter) {
  // A tied embedding on a stage that has only the head: the head's backward makes its gradient.
  for (const model::Segment segment : {parameter.segment, model::Segment::head}) {
    if (segment == model::Segment::head && parameter.layer >= 0) break;
    for (std::size_t b = 0; b < stage.buckets.size(); ++b)
      if (holds(stage.buckets[b], parameter, segment)) return static_cast<int>(b);
  }
  TRIREME_CHECK(false, "{} is in no gradient bucket", parameter.name);
  return -1;
}

}  // namespace

GradientBuckets::GradientBuckets(nn::Model& model, const plan::StagePlan& stage, at::ScalarType reduce_dtype)
    : model_(model), reduce_dtype_(reduce_dtype), parameters_(stage.buckets.size()) {
  for (nn::Parameter* parameter : model.parameters()) parameters_[bucket_of(stage, *parameter)].push_back(parameter);
  const at::ScalarType dtype = to_scalar_type(accumulate_dtype(from_scalar_type(model.options().dtype)));
  for (const auto& members : parameters_) {
    std::int64_t size = 0;
    for (const nn::Parameter* p : members) size += (p->value.numel() + alignment - 1) / alignment * alignment;
    at::Tensor flat = at::zeros({size}, at::TensorOptions().dtype(dtype).device(model.options().device));
    std::int64_t offset = 0;
    for (nn::Parameter* p : members) {
      p->grad = flat.narrow(0, offset, p->value.numel()).view(p->value.sizes());
      offset += (p->value.numel() + alignment - 1) / alignment * alignment;
    }
    flat_.push_back(std::move(flat));
  }
}

void GradientBuckets::zero() {
  for (at::Tensor& flat : flat_) flat.zero_();
}

void GradientBuckets::sum(at::Tensor& tensor, comm::Group& group, const std::string& operation) const {
  if (group.size() == 1) return;
  if (tensor.scalar_type() == reduce_dtype_) {
    comm::all_reduce(group, tensor, comm::ReduceOp::sum, operation);
    return;
  }
  at::Tensor message = tensor.to(reduce_dtype_);
  comm::all_reduce(group, message, comm::ReduceOp::sum, operation);
  tensor.copy_(message);
}

void GradientBuckets::reduce(int bucket, comm::Group& group, const std::string& operation) {
  sum(flat_.at(bucket), group, operation);
}

void GradientBuckets::reduce_embedding(comm::Group& group, const std::string& operation) {
  for (nn::Parameter* parameter : model_.parameters())
    if (parameter->pieces.size() == 1 && parameter->pieces[0].spec.name == "embed.weight")
      sum(parameter->grad, group, operation);
}

}  // namespace trireme::parallel
