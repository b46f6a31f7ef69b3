#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/errors.h"

namespace trireme {
namespace {

[[noreturn]] void throw_errno(const char* what, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), fmt::format("{} {}", what, path.string()));
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  // Ranks may be threads of one process, so the process alone is not unique.
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}.tmp.{}.{}", path.string(), ::getpid(), counter++);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), temporary_(temporary_name(path_)) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) throw_errno("cannot write", temporary_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TRIREME_CHECK(fd_ >= 0, "{} is already committed", path_.string());
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno("cannot write", temporary_);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  TRIREME_CHECK(fd_ >= 0, "{} is already committed", path_.string());
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno("cannot write", temporary_);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void AtomicFile::sync() {
  TRIREME_CHECK(fd_ >= 0, "{} is already committed", path_.string());
  if (::fsync(fd_) != 0) throw_errno("cannot write", temporary_);
}

void AtomicFile::commit() {
  sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_errno("cannot rename to", path_);
  ::close(fd_);
  fd_ = -1;
  // The rename itself lasts through a power cut only once the folder is on the disk; some file systems refuse it.
  const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  const int folder_fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd >= 0) {
    ::fsync(folder_fd);
    ::close(folder_fd);
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace trireme
