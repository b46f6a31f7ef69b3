#include "base/printable.h"

#include <cstdint>

#include <fmt/format.h>

#include "base/utf8.h"

namespace trireme {

namespace {

// Of a valid character of two or three bytes: those of four need no escape.
std::uint32_t code_point(std::string_view c) {
  const auto low = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<std::uint8_t>(c[i]) & 0x3F); };
  const std::uint32_t first = static_cast<std::uint8_t>(c[0]);
  return c.size() == 2 ? (first & 0x1F) << 6 | low(1) : (first & 0x0F) << 12 | low(1) << 6 | low(2);
}

bool moves_text(std::uint32_t c) {
  const bool control = c < 0xA0, separator = c == 0x2028 || c == 0x2029;
  const bool direction = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return control || separator || direction;
}

std::string escaped_byte(char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return fmt::format("\\x{:02x}", static_cast<std::uint8_t>(c));
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t valid = first_not_utf8(text);
    for (std::size_t at = 0; at < valid;) {
      const auto byte = static_cast<std::uint8_t>(text[at]);
      const std::size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
      const std::string_view c = text.substr(at, length);
      at += length;
      if (length == 1) {
        if (byte < 32 || byte == 127) out += escaped_byte(c[0]);
        else out += c;
      } else if (length < 4 && moves_text(code_point(c))) {
        out += fmt::format("\\u{:04x}", code_point(c));
      } else {
        out += c;
      }
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += escaped_byte(text[0]);
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace trireme
