#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/errors.h"
#include "base/regular_file.h"

namespace trireme {
namespace {

[[noreturn]] void throw_errno(const char* what, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), fmt::format("{} {}", what, path.string()));
}

namespace fs = std::filesystem;

// Devices, pipes, and names of what the process has open already, such as /dev/stdout.
bool is_written_straight(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status) || fs::is_directory(status)) return false;
  return !fs::is_regular_file(status) || names_open_file(path);
}

fs::path behind_links(fs::path path) {
  std::error_code failed;
  if (!fs::is_symlink(path, failed) || is_written_straight(path)) return path;
  const fs::path target = fs::canonical(path, failed);
  return failed ? path : target;
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  // Ranks may be threads of one process, so the process alone is not unique.
  static std::atomic<unsigned> counter{0};
  if (is_written_straight(path)) return path;
  return fmt::format("{}.tmp.{}.{}", path.string(), ::getpid(), counter++);
}

std::string place_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// A file in the folder of `name`, which can be linked there later; -1 where the file system knows none, or something is wrong
// that opening the name tells better (too long, no such folder).
int open_nameless(const fs::path& name) {
  struct stat status {};
  if (::lstat(name.c_str(), &status) == 0 || errno != ENOENT) return -1;
  const fs::path folder = name.has_parent_path() ? name.parent_path() : fs::path(".");
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0 || ::access(place_of(fd).c_str(), F_OK) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(behind_links(std::move(path))), temporary_(temporary_name(path_)) {
  errno = EISDIR;
  std::error_code ignored;
  if (fs::is_directory(path_, ignored)) throw_errno("cannot write", path_);
  if (temporary_ != path_) fd_ = open_nameless(temporary_);
  is_nameless_ = fd_ >= 0;
  const int how = temporary_ == path_ ? O_APPEND : O_CREAT | O_TRUNC;
  if (!is_nameless_) fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC | how, 0644);
  if (fd_ < 0) throw_errno("cannot write", path_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (temporary_ != path_ && !is_nameless_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TRIREME_CHECK(fd_ >= 0, "{} is already committed", path_.string());
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno("cannot write", path_);
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
    if (n < 0) throw_errno("cannot write", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void AtomicFile::sync() {
  TRIREME_CHECK(fd_ >= 0, "{} is already committed", path_.string());
  // Pipes and devices have no disk to be on.
  if (::fsync(fd_) != 0 && temporary_ != path_) throw_errno("cannot write", path_);
  if (!is_nameless_) return;
  // A link can't replace a file, a rename can. Here already, because a folder that grows by a name takes room too.
  if (::linkat(AT_FDCWD, place_of(fd_).c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0)
    throw_errno("cannot write", path_);
  is_nameless_ = false;
}

void AtomicFile::commit() {
  sync();
  if (temporary_ == path_) {
    ::close(fd_);
    fd_ = -1;
    return;
  }
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

void check_writable(const std::filesystem::path& path) {
  AtomicFile opened_and_removed(path);
}

}  // namespace trireme
