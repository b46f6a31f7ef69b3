#include "train/data/utf16.h"

namespace trireme::train {
namespace {

void append_utf8(std::uint32_t c, std::string& out) {
  const auto byte = [&](std::uint32_t b) { out.push_back(static_cast<char>(b)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) {
    byte(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    byte(0xE0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3F));
  } else {
    byte(0xF0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3F));
    byte(0x80 | (c >> 6 & 0x3F));
  }
  byte(0x80 | (c & 0x3F));
}

}  // namespace

void Utf16Decoder::decode(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const int byte = static_cast<unsigned char>(c);
    if (half_ < 0) {
      half_ = byte;
      continue;
    }
    take(static_cast<std::uint16_t>(big_endian_ ? half_ << 8 | byte : byte << 8 | half_), out);
    half_ = -1;
  }
}

void Utf16Decoder::take(std::uint16_t unit, std::string& out) {
  const bool is_low = unit >= 0xDC00 && unit < 0xE000;
  if (high_ != 0) {
    if (is_low) {
      append_utf8(0x10000 + ((high_ - 0xD800) << 10) + (unit - 0xDC00u), out);
      high_ = 0;
      return;
    }
    append_utf8(high_, out);
    high_ = 0;
  }
  if (unit >= 0xD800 && unit < 0xDC00)
    high_ = unit;
  else
    append_utf8(unit, out);
}

void Utf16Decoder::finish(std::string& out) {
  if (high_ != 0) append_utf8(high_, out);
  if (half_ >= 0) out.push_back('\xFF');
  high_ = 0;
  half_ = -1;
}

}  // namespace trireme::train
