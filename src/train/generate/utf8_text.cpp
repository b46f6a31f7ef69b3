#include "train/generate/utf8_text.h"

#include <cstdint>

#include <fmt/format.h>

namespace trireme::train {
namespace {

struct Lead {
  int length = 0;                              // of the character; 0: no character begins so
  std::uint8_t lowest = 0x80, highest = 0xBF;  // of its second byte
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Text utf8_text(std::string_view bytes, bool last) {
  static constexpr const char* replacement = "\xEF\xBF\xBD";
  Utf8Text out;
  while (out.taken < bytes.size()) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[out.taken + i]); };
    const std::size_t left = bytes.size() - out.taken;
    const Lead lead = lead_of(byte(0));
    std::size_t good = 1;  // bytes that may begin a character
    while (good < static_cast<std::size_t>(lead.length) && good < left &&
           byte(good) >= (good == 1 ? lead.lowest : 0x80) && byte(good) <= (good == 1 ? lead.highest : 0xBF))
      ++good;
    if (good == static_cast<std::size_t>(lead.length)) {
      out.text += bytes.substr(out.taken, good);
    } else {
      if (lead.length > 0 && good == left && !last) break;
      out.text += replacement;
    }
    out.taken += good;
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<std::uint8_t>(text[i + 1]) < 0xA0;
    if (c1) {
      out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(text[++i]));  // U+0080 to U+009F
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace trireme::train
