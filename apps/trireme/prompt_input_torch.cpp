#include "trireme/prompt_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/log.h"

namespace trireme::apps {

namespace {

struct Source {
  int fd;
  std::string file;  // empty: standard input
  const char* key;
};

// Closed at the end, where it is none of the process's own streams.
class OpenFile {
 public:
  explicit OpenFile(const std::string& file)
      // Opening a pipe would wait until another process writes, without a word.
      : fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string read_to_end(const Source& source) {
  const auto refuse = [&](std::string why) {
    throw ConfigError({.file = source.file, .key = source.key, .allowed = std::move(why)});
  };
  struct stat info {};
  if (::fstat(source.fd, &info) != 0) refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (S_ISDIR(info.st_mode)) refuse(source.file.empty() ? "standard input is a folder: expected text" : "is a folder: expected a file");
  std::string text;
  std::vector<char> piece(1 << 16);
  bool told = false;
  for (;;) {
    // Not ready either is a pipe that nobody has opened for writing.
    pollfd ready{.fd = source.fd, .events = POLLIN, .revents = 0};
    const int events = ::poll(&ready, 1, told ? -1 : 2000);
    if (events == 0 && !told) {
      spdlog::info("waits for a prompt on {}; its end is that of the prompt", source.file.empty() ? "standard input" : source.file);
      told = true;
    }
    if (events <= 0) continue;
    const ssize_t n = ::read(source.fd, piece.data(), piece.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
    if (n == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(n));
    if (text.size() > most_prompt_bytes)
      refuse(fmt::format("{} more than {} MiB: no prompt is so long", source.file.empty() ? "standard input holds" : "holds",
                         most_prompt_bytes >> 20));
  }
}

}  // namespace

std::string read_prompt_file(const std::string& file) {
  const OpenFile open(file);
  if (open.fd() < 0)
    throw ConfigError({.file = file, .key = "--prompt-file",
                       .allowed = errno == ENOENT ? "no such file" : fmt::format("cannot be read: {}", std::strerror(errno))});
  return read_to_end({open.fd(), file, "--prompt-file"});
}

std::string read_prompt_input() {
  if (::isatty(STDIN_FILENO))
    throw ConfigError({.key = "--prompt",
                       .allowed = "a prompt is needed: --prompt TEXT, --prompt-file FILE, or text on standard input"});
  return read_to_end({STDIN_FILENO, "", "--prompt"});
}

}  // namespace trireme::apps
