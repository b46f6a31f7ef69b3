#include "base/dtype.h"

#include "base/errors.h"

namespace trireme {

int size_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return 8;
    case DType::float32:
      return 4;
    case DType::bfloat16:
    case DType::float16:
      return 2;
  }
  TRIREME_CHECK(false, "dtype {}", static_cast<int>(dtype));
  return 0;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return "float64";
    case DType::float32:
      return "float32";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float16:
      return "float16";
  }
  return "?";
}

DType dtype_from_name(std::string_view name) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16})
    if (name_of(dtype) == name) return dtype;
  throw ConfigError({.value = std::string(name), .allowed = "expected float32, float64, bfloat16 or float16"});
}

DType accumulate_dtype(DType dtype) {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

}  // namespace trireme
