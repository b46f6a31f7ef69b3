#include "train/data/python_process.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/errors.h"
#include "base/log.h"

extern char** environ;

namespace trireme::train {
namespace {

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

PythonProcess::PythonProcess(const char* script, const std::vector<std::string>& arguments, std::string purpose)
    : purpose_(std::move(purpose)) {
  // A pair of sockets and no pipes: writing to a pipe whose reader has ended would raise SIGPIPE.
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a socket for python3");
  std::vector<char*> argv{const_cast<char*>("python3"), const_cast<char*>("-c"), const_cast<char*>(script)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  const int error = posix_spawnp(&pid_, "python3", &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  ::close(ends[1]);
  socket_ = ends[0];
  if (error == 0) return;
  ::close(socket_);
  throw ConfigError({.file = purpose_,
                     .allowed = fmt::format("is read by python3 with its package `tokenizers`, and python3 cannot be "
                                            "started ({}): install python3 (Debian: python3 python3-venv), then in a "
                                            "virtual environment `pip install tokenizers`",
                                            std::generic_category().message(error))});
}

PythonProcess::~PythonProcess() {
  ::close(socket_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);  // it holds nothing that could be lost
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void PythonProcess::fail() {
  int status = 0;
  std::string how = "does not answer any more";
  if (pid_ > 0 && ::waitpid(pid_, &status, 0) == pid_) {
    how = how_it_ended(status);
    pid_ = -1;
  }
  throw RuntimeFailure(
      {.operation = "tokenize", .reason = fmt::format("{}: its child process python3 {}", purpose_, how)});
}

void PythonProcess::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail();
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void PythonProcess::fill() {
  received_.erase(0, at_);
  at_ = 0;
  char block[1 << 16];
  // Loading its package may take a while, and whatever stands in the place of python3 may never answer.
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  int pause_ms = 2000;
  for (pollfd answer{.fd = socket_, .events = POLLIN, .revents = 0}; ::poll(&answer, 1, pause_ms) == 0; pause_ms = 10000)
    spdlog::info("{}: waits for python3 to answer, {} s so far", purpose_,
                 std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count());
  for (;;) {
    const ssize_t n = ::recv(socket_, block, sizeof(block), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail();
    received_.append(block, static_cast<std::size_t>(n));
    return;
  }
}

std::string PythonProcess::receive_line() {
  std::size_t searched = at_;
  for (;;) {
    const std::size_t end = received_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = received_.substr(at_, end - at_);
      at_ = end + 1;
      return line;
    }
    searched = received_.size() - at_;
    fill();
  }
}

void PythonProcess::receive(std::span<std::byte> out) {
  while (!out.empty()) {
    if (at_ == received_.size()) fill();
    const std::size_t n = std::min(out.size(), received_.size() - at_);
    std::memcpy(out.data(), received_.data() + at_, n);
    at_ += n;
    out = out.subspan(n);
  }
}

}  // namespace trireme::train
