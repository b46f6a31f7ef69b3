#include "train/run_folder/run_identity.h"

#include <cstdint>
#include <random>

#include <fmt/format.h>

namespace trireme::train {

std::string random_id() {
  std::random_device device;
  const std::uint64_t bits = (std::uint64_t{device()} << 32) | device();
  return fmt::format("{:012x}", bits & 0xffff'ffff'ffff);
}

}  // namespace trireme::train
