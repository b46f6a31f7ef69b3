#include "train/checkpoint/safetensors_types.h"

#include <array>
#include <utility>

#include "base/errors.h"
#include "train/checkpoint/safetensors.h"

namespace trireme::train {
namespace {

constexpr std::array<std::pair<const char*, at::ScalarType>, 5> types{
    {{"F32", at::kFloat}, {"F64", at::kDouble}, {"BF16", at::kBFloat16}, {"F16", at::kHalf}, {"I64", at::kLong}}};

}  // namespace

const char* safetensors_dtype(at::ScalarType dtype) {
  for (const auto& [name, type] : types) {
    if (type == dtype) return name;
  }
  TRIREME_CHECK(false, "no safetensors type for {}", c10::toString(dtype));
  return "";
}

std::optional<at::ScalarType> scalar_type(const std::string& safetensors_dtype) {
  for (const auto& [name, type] : types) {
    if (safetensors_dtype == name) return type;
  }
  return std::nullopt;
}

std::string describe(at::ScalarType dtype, std::span<const std::int64_t> shape) {
  return fmt::format("{} ({})", safetensors_dtype(dtype), fmt::join(shape, ", "));
}

std::uint64_t TensorEntry::bytes() const {
  std::uint64_t count = 1;
  for (std::int64_t size : shape) count *= static_cast<std::uint64_t>(size);
  return count * c10::elementSize(dtype);
}

}  // namespace trireme::train
