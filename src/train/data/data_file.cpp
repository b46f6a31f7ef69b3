#include "train/data/data_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/regular_file.h"

namespace trireme::train {

DataFile::DataFile(std::filesystem::path path) : path_(std::move(path)), fd_(open_regular_descriptor(path_)) {
  struct stat status {};
  const bool opened = fd_ >= 0 && ::fstat(fd_, &status) == 0;
  if (!opened) {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    throw std::system_error(error, std::generic_category(), "cannot read " + path_.string());
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

DataFile::~DataFile() {
  if (fd_ >= 0) ::close(fd_);
}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(std::exchange(other.size_, 0)) {}

DataFile& DataFile::operator=(DataFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

void DataFile::read(std::uint64_t at, std::span<std::byte> out) const {
  TRIREME_CHECK(at <= size_ && out.size() <= size_ - at, "bytes {} + {} of {}", at, out.size(), size_);
  const auto fail = [&](std::string reason) {
    throw RuntimeFailure({.operation = "read " + path_.string(), .reason = std::move(reason)});
  };
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(std::strerror(errno));
    if (n == 0)
      fail(fmt::format("it had {} bytes when it was opened and ends at byte {} now: something has made it shorter",
                       size_, at));
    out = out.subspan(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
}

}  // namespace trireme::train
