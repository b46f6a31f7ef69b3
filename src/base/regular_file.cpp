#include "base/regular_file.h"

#include <fcntl.h>

#include "base/errors.h"

namespace trireme {

namespace fs = std::filesystem;

bool names_open_file(const fs::path& path) {
  std::error_code ignored;
  const std::string name = fs::absolute(path, ignored).lexically_normal().string();
  for (const char* open : {"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"})
    if (name.starts_with(open)) return true;
  return false;
}

std::string why_not_regular(const fs::path& path) {
  std::error_code ignored;
  switch (fs::status(path, ignored).type()) {
    case fs::file_type::directory:
      return "is a folder: expected a file";
    case fs::file_type::fifo:
      return "is a pipe: expected a regular file";
    case fs::file_type::socket:
      return "is a socket: expected a regular file";
    case fs::file_type::character:
    case fs::file_type::block:
      return "is a device: expected a regular file";
    default:
      return {};
  }
}

void check_regular(const fs::path& path) {
  if (std::string why = why_not_regular(path); !why.empty())
    throw ConfigError({.file = path.string(), .allowed = std::move(why)});
}

std::ifstream open_regular(const fs::path& path) {
  check_regular(path);
  return std::ifstream(path, std::ios::binary);
}

int open_regular_descriptor(const fs::path& path) {
  check_regular(path);
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace trireme
