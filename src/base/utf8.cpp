#include "base/utf8.h"

#include <cstdint>

namespace trireme {

std::size_t first_not_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  for (std::size_t at = 0; at < text.size();) {
    const std::uint8_t first = byte(at);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0 || at + length > text.size()) return at;
    for (std::size_t i = 1; i < length; ++i)
      if ((byte(at + i) & 0xC0) != 0x80) return at;
    if (length >= 3) {
      const std::uint8_t second = byte(at + 1);
      const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
      const bool surrogate = first == 0xED && second >= 0xA0, too_large = first == 0xF4 && second >= 0x90;
      if (overlong || surrogate || too_large) return at;
    }
    at += length;
  }
  return text.size();
}

}  // namespace trireme
