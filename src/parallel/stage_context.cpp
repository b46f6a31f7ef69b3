#include "parallel/stage_context.h"

#include "base/errors.h"

namespace trireme::parallel {

comm::Group& StageContext::group_of(const plan::Action& action) const {
  if (action.kind == plan::ActionKind::send || action.kind == plan::ActionKind::receive)
    return action.pass == plan::Pass::forward ? communicator.pipeline_forward() : communicator.pipeline_backward();
  return communicator.group(action.group);
}

at::ScalarType to_scalar_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return at::kFloat;
    case DType::float64:
      return at::kDouble;
    case DType::bfloat16:
      return at::kBFloat16;
    case DType::float16:
      return at::kHalf;
  }
  TRIREME_CHECK(false, "unknown dtype");
  return at::kFloat;
}

DType from_scalar_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::float32;
    case at::kDouble:
      return DType::float64;
    case at::kBFloat16:
      return DType::bfloat16;
    case at::kHalf:
      return DType::float16;
    default:
      break;
  }
  TRIREME_CHECK(false, "{} is no floating-point type of ours", at::toString(type));
  return DType::float32;
}

}  // namespace trireme::parallel
