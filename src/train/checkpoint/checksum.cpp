#include "train/checkpoint/checksum.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace trireme::train {

std::string checksum(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
  return fmt::format("{:016x}", XXH3_64bits(host.const_data_ptr(), host.nbytes()));
}

std::string checksum_of_bytes(std::string_view bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

std::string checksum(const nlohmann::json& object) {
  nlohmann::json rest = object;
  rest.erase(checksum_key);
  return checksum_of_bytes(rest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace trireme::train
