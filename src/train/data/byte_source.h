// Bytes in order: of a file, or unpacked from another source.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "train/data/input_format.h"

namespace trireme::train {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // At most n bytes; 0 only at the end.
  virtual std::size_t read(char* out, std::size_t n) = 0;
};

// Also pipes. ConfigError where the file is absent or a folder, std::system_error where reading fails.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(std::filesystem::path file);
  ~FileSource() override;
  std::size_t read(char* out, std::size_t n) override;
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  std::filesystem::path file_;
  int fd_ = -1;
  std::int64_t bytes_read_ = 0;
};

// `begin`: bytes that were read from `packed` already. ConfigError naming `file`: in the constructor where this build
// can't unpack the form, in read() where the data are damaged or end too early.
std::unique_ptr<ByteSource> decompressed(Compression form, std::string begin, ByteSource& packed,
                                         std::filesystem::path file);
const char* name_of(Compression form);

}  // namespace trireme::train
