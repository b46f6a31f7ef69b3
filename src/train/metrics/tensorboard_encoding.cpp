#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "base/errors.h"
#include "train/metrics/crc32c.h"
#include "train/metrics/tensorboard.h"

namespace trireme::train {
namespace {

enum WireType : std::uint64_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

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

// Reads what the functions above write; nullopt at the end or where the bytes run out (then `broken`).
struct Decoder {
  std::string_view rest;
  bool broken = false;

  template <class T>
  T fixed() {
    T value{};
    if (rest.size() < sizeof(T)) return broken = true, value;
    std::memcpy(&value, rest.data(), sizeof(T));
    rest.remove_prefix(sizeof(T));
    return value;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest.front());
      rest.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (!(byte & 0x80)) return value;
    }
    broken = true;
    return value;
  }
  std::string_view bytes() {
    const std::uint64_t size = number();
    if (size > rest.size()) broken = true;
    if (broken) return {};
    const std::string_view out = rest.substr(0, size);
    rest.remove_prefix(size);
    return out;
  }
  void skip(std::uint64_t key) {
    switch (key & 7) {
      case varint:
        number();
        break;
      case fixed64:
        fixed<std::uint64_t>();
        break;
      case delimited:
        bytes();
        break;
      case fixed32:
        fixed<std::uint32_t>();
        break;
      default:
        broken = true;
    }
  }
  // Calls on_field(key) for each field; on_field says whether it has read it.
  template <class F>
  void fields(F&& on_field) {
    while (!rest.empty() && !broken) {
      const std::uint64_t key = number();
      if (!broken && !on_field(key)) skip(key);
    }
  }
};

constexpr std::uint64_t key_of(std::uint64_t number, WireType type) {
  return number << 3 | type;
}

std::optional<ScalarEvent> decode_event(std::string_view data) {
  ScalarEvent event;
  bool broken = false;
  Decoder outer{data};
  outer.fields([&](std::uint64_t key) {
    if (key == key_of(1, fixed64)) return event.wall_time = outer.fixed<double>(), true;
    if (key == key_of(2, varint)) return event.step = static_cast<std::int64_t>(outer.number()), true;
    if (key == key_of(3, delimited)) return event.file_version = outer.bytes(), true;
    if (key != key_of(5, delimited)) return false;
    Decoder summary{outer.bytes()};
    summary.fields([&](std::uint64_t summary_key) {
      if (summary_key != key_of(1, delimited)) return false;
      Scalar scalar;
      Decoder value{summary.bytes()};
      value.fields([&](std::uint64_t value_key) {
        if (value_key == key_of(1, delimited)) return scalar.tag = value.bytes(), true;
        if (value_key == key_of(2, fixed32)) return scalar.value = value.fixed<float>(), true;
        return false;
      });
      broken |= value.broken;
      event.scalars.push_back(std::move(scalar));
      return true;
    });
    broken |= summary.broken;
    return true;
  });
  return broken || outer.broken ? std::nullopt : std::optional(std::move(event));
}

}  // namespace

std::string encode_event(const ScalarEvent& event) {
  std::string out = field(1, fixed64, raw(event.wall_time));
  if (event.step != 0) out += field(2, varint, encode_varint(static_cast<std::uint64_t>(event.step)));
  if (!event.file_version.empty()) out += bytes_field(3, event.file_version);
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

std::vector<ScalarEvent> read_events(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ConfigError({.file = path.string(), .allowed = "no such file, or it cannot be read"});
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::vector<ScalarEvent> events;
  Decoder decoder{all};
  while (!decoder.rest.empty()) {
    const std::size_t offset = all.size() - decoder.rest.size();
    const auto fail = [&](const char* what) {
      throw ConfigError({.file = path.string(), .key = fmt::format("byte {}", offset), .allowed = what});
    };
    const auto length = decoder.fixed<std::uint64_t>();
    const auto length_crc = decoder.fixed<std::uint32_t>();
    if (decoder.broken) fail("the record is cut short");
    if (masked_crc32c(raw(length)) != length_crc) fail("the checksum of the record's length is wrong");
    if (length > decoder.rest.size()) fail("the record is cut short");
    const std::string_view data = decoder.rest.substr(0, length);
    decoder.rest.remove_prefix(length);
    const auto data_crc = decoder.fixed<std::uint32_t>();
    if (decoder.broken) fail("the record is cut short");
    if (masked_crc32c(data) != data_crc) fail("the checksum of the record is wrong");
    auto event = decode_event(data);
    if (!event) fail("not an Event");
    events.push_back(std::move(*event));
  }
  return events;
}

}  // namespace trireme::train
