// Element types by their safetensors names, and how a tensor reads in an error.
#pragma once
#include <optional>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>

namespace trireme::train {

std::optional<at::ScalarType> scalar_type(const std::string& safetensors_dtype);  // "BF16"
std::string describe(at::ScalarType dtype, std::span<const std::int64_t> shape);  // "F32 (64, 32)"

}  // namespace trireme::train
