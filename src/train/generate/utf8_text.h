// Bytes that come piece by piece, as UTF-8 text.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme::train {

struct Utf8Text {
  std::string text;       // U+FFFD in the place of each ill-formed part (Unicode 15, section 3.9, table 3-8)
  std::size_t taken = 0;  // bytes that it stands for; those behind begin a character that is not complete
};

// `last`: no more bytes come, so that an incomplete character is an ill-formed part.
Utf8Text utf8_text(std::string_view bytes, bool last);

// With what would move a terminal's cursor or change its state made visible: control characters but line ends and tabs
// become "\x1b" and the like.
std::string printable(std::string_view text);

}  // namespace trireme::train
