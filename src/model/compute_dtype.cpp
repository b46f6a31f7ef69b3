#include "model/compute_dtype.h"

namespace trireme::model {

ComputeFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return ComputeFormat::bfloat16;
    case DType::float16:
      return ComputeFormat::float16;
    case DType::float32:
    case DType::float64:
      break;
  }
  return ComputeFormat::float32;
}

DType dtype_of(ComputeFormat format) {
  if (format == ComputeFormat::float32) return DType::float32;
  return format == ComputeFormat::float16 ? DType::float16 : DType::bfloat16;
}

}  // namespace trireme::model
