// UTF-16 to UTF-8, block by block.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::train {

class Utf16Decoder {
 public:
  explicit Utf16Decoder(bool big_endian) : big_endian_(big_endian) {}

  // Appends what the bytes stand for. Half a surrogate pair is written as the three bytes that UTF-8 would give its
  // number (ED A0 80 to ED BF BF) and half a unit as FF: readers of UTF-8 find both, at their place.
  void decode(std::string_view bytes, std::string& out);
  void finish(std::string& out);  // at the end of the text

 private:
  void take(std::uint16_t unit, std::string& out);

  bool big_endian_;
  int half_ = -1;           // the first byte of a unit
  std::uint32_t high_ = 0;  // the first half of a surrogate pair
};

}  // namespace trireme::train
