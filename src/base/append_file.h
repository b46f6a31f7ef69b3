// A file that grows record by record: each is there whole or not at all. Where one doesn't fit (a full disk), what was
// written of it is taken back. std::system_error with the path in its text. One writer at a time.
#pragma once
#include <filesystem>
#include <string_view>

namespace trireme {

class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path);  // made where it does not exist
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view record);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace trireme
