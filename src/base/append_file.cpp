#include "base/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace trireme {
namespace {

[[noreturn]] void throw_cannot_write(int error, const std::filesystem::path& path) {
  throw std::system_error(error, std::generic_category(), fmt::format("cannot write {}", path.string()));
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) throw_cannot_write(errno, path_);
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::append(std::string_view record) {
  struct stat before {};
  if (::fstat(fd_, &before) != 0) throw_cannot_write(errno, path_);
  while (!record.empty()) {
    const ssize_t n = ::write(fd_, record.data(), record.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      if (::ftruncate(fd_, before.st_size) != 0) {
        // Readers skip a last record that is cut short; the first error is the one to tell.
      }
      throw_cannot_write(error, path_);
    }
    record.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace trireme
