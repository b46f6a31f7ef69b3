// A text file as UTF-8, block by block: unpacked, its byte order mark dropped, UTF-16 decoded. Whether the bytes are
// valid UTF-8 is for the reader to see, who knows documents and lines.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/errors.h"
#include "train/data/byte_source.h"
#include "train/data/input_format.h"
#include "train/data/utf16.h"

namespace trireme::train {

// A file that is no text at all (ConfigError), as against one that is absent or can't be read.
class NotText : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

class TextStream {
 public:
  // ConfigError where the file is absent; NotText where it is something else than text.
  explicit TextStream(const std::filesystem::path& file);

  // Empty at the end; valid until the next call. NotText where packed data are damaged.
  std::string_view next_block();

  std::int64_t bytes_read() const { return file_.bytes_read(); }  // of the file, as it lies on the disk
  // Whether positions in the text are other than those in the file.
  bool is_unpacked() const { return unpacked_ != nullptr || utf16_.has_value(); }
  // Bytes of the file in front of the text.
  std::size_t mark_bytes() const { return format_.mark_bytes; }

 private:
  ByteSource& source() { return unpacked_ ? *unpacked_ : file_; }
  std::string read_head();

  FileSource file_;
  std::unique_ptr<ByteSource> unpacked_;
  InputFormat format_;
  std::optional<Utf16Decoder> utf16_;
  std::string head_, block_, decoded_;
  std::optional<NotText> failed_;  // once the head is read
  bool ended_ = false;
};

}  // namespace trireme::train
