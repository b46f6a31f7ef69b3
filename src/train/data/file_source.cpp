#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/errors.h"
#include "train/data/byte_source.h"

namespace trireme::train {

FileSource::FileSource(std::filesystem::path file) : file_(std::move(file)) {
  fd_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) {
    const int error = errno;
    throw ConfigError({.file = file_.string(),
                       .allowed = error == ENOENT ? "no such file, or it cannot be read"
                                                  : fmt::format("cannot be read: {}", std::strerror(error))});
  }
  struct stat status {};
  if (::fstat(fd_, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(fd_);
    throw ConfigError({.file = file_.string(), .allowed = "is a folder: expected a file"});
  }
}

FileSource::~FileSource() {
  ::close(fd_);
}

std::size_t FileSource::read(char* out, std::size_t n) {
  for (;;) {
    const ssize_t got = ::read(fd_, out, n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::system_error(errno, std::generic_category(), "cannot read " + file_.string());
    bytes_read_ += got;
    return static_cast<std::size_t>(got);
  }
}

}  // namespace trireme::train
