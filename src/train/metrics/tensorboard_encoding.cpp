#include <cstring>

#include "train/metrics/crc32c.h"
#include "train/metrics/tensorboard.h"

namespace trireme::train {
namespace {

enum WireType : std::uint64_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

constexpr std::uint64_t session_started = 1;  // SessionLog.START

template <class T>
std::string raw(T value) {  // little-endian, as every platform that torch supports
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

std::string encode_varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string field(std::uint64_t number, WireType type, const std::string& body) {
  return encode_varint(number << 3 | type) + body;
}
std::string bytes_field(std::uint64_t number, const std::string& body) {
  return field(number, delimited, encode_varint(body.size()) + body);
}

}  // namespace

std::string encode_event(const ScalarEvent& event) {
  std::string out = field(1, fixed64, raw(event.wall_time));
  if (event.step != 0) out += field(2, varint, encode_varint(static_cast<std::uint64_t>(event.step)));
  if (!event.file_version.empty()) out += bytes_field(3, event.file_version);
  if (event.session_start) out += bytes_field(7, field(1, varint, encode_varint(session_started)));
  if (event.scalars.empty()) return out;
  std::string summary;
  for (const Scalar& scalar : event.scalars) {
    summary += bytes_field(1, bytes_field(1, scalar.tag) + field(2, fixed32, raw(scalar.value)));
  }
  return out + bytes_field(5, summary);
}

std::string frame_record(const std::string& data) {
  const std::string length = raw(static_cast<std::uint64_t>(data.size()));
  return length + raw(masked_crc32c(length)) + data + raw(masked_crc32c(data));
}

}  // namespace trireme::train
