// CRC-32C (Castagnoli, RFC 3720 appendix B.4), and the masked form that TFRecord files carry.
#pragma once
#include <cstdint>
#include <string_view>

namespace trireme::train {

std::uint32_t crc32c(std::string_view bytes);
// ((crc >> 15) | (crc << 17)) + 0xa282ead8: the checksum of data that holds checksums
// (tensorflow/core/lib/hash/crc32c.h).
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace trireme::train
