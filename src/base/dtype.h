// Element types by name, without torch.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace trireme {

enum class DType { float32, float64, bfloat16, float16 };

int size_of(DType dtype);                     // bytes an element
std::string_view name_of(DType dtype);        // "float32"
DType dtype_from_name(std::string_view name); // ConfigError for an unknown one
DType accumulate_dtype(DType dtype);          // max(float32, dtype)

TRIREME_JSON(DType)

}  // namespace trireme
