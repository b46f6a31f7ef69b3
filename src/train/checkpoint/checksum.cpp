#include "train/checkpoint/checksum.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace trireme::train {

std::string checksum(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
  return fmt::format("{:016x}", XXH3_64bits(host.const_data_ptr(), host.nbytes()));
}

}  // namespace trireme::train
