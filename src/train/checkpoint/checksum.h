// The checksum of a tensor's bytes as they lie in a file (little-endian, row-major): XXH3 with 64 bits, in 16 hex
// digits. It finds damage of disks and copies; it is no signature.
#pragma once
#include <string>

#include <ATen/core/Tensor.h>

namespace trireme::train {

std::string checksum(const at::Tensor& tensor);

}  // namespace trireme::train
