// The tensors' type that matmuls of a format run on, and back.
#pragma once
#include "base/dtype.h"
#include "model/precision.h"

namespace trireme::model {

// float64 computes as float32 is priced.
ComputeFormat format_of(DType dtype);
// Of a narrower format the nearest that tensors have: only matmuls compute in it, between bfloat16 tensors.
DType dtype_of(ComputeFormat format);

}  // namespace trireme::model
