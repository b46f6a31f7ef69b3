// The checksum of a tensor's bytes as they lie in a file (little-endian, row-major): XXH3 with 64 bits, in 16 hex
// digits. It finds damage of disks and copies; it is no signature.
#pragma once
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

namespace trireme::train {

std::string checksum(const at::Tensor& tensor);
std::string checksum_of_bytes(std::string_view bytes);

// Of a JSON object's shortest text with sorted keys, without `checksum_key`: spaces and line ends don't matter.
inline constexpr const char* checksum_key = "xxh3";
std::string checksum(const nlohmann::json& object);

}  // namespace trireme::train
