#include "parallel/stage_context.h"

#include "base/errors.h"

namespace trireme::parallel {

comm::Group& StageContext::group_of(const plan::Action& action) const {
  return communicator.group(action.group);
}

int StageContext::peer_of(const plan::Action& action) const {
  TRIREME_CHECK(action.group.of_messages(), "{} has no peer", plan::describe(action));
  return 1 - group_of(action).rank();
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
