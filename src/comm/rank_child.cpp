#include "comm/rank_child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/errors.h"
#include "comm/exit_codes.h"

namespace trireme::comm {

RankChild::RankChild(const RankProgram& program) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : program.environment) lines.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> variables, arguments;
  for (std::string& line : lines) variables.push_back(line.data());
  for (const std::string& argument : program.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  variables.push_back(nullptr);
  arguments.push_back(nullptr);

  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &program.signal_mask);
  // A process group in the background must not read the terminal.
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const std::string executable = program.executable.empty() ? "/proc/self/exe" : program.executable;
  const int error = posix_spawn(&pid_, executable.c_str(), &files, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    throw RuntimeFailure({.operation = fmt::format("start {}", executable), .reason = std::strerror(error)});
}

bool RankChild::reap() {
  siginfo_t info{};
  if (ended_ || waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_)
    return ended_;
  kill(-pid_, SIGKILL);  // what it started and left behind; before its number is free for others
  waitpid(pid_, &status_, 0);
  return ended_ = true;
}

void RankChild::send(int signal) const {
  if (!ended_) kill(signal == SIGKILL ? -pid_ : pid_, signal);
}

bool RankChild::failed() const {
  return ended_ && status_ != 0 && exit_code() != exit_stopped;
}
bool RankChild::killed_by(int signal) const {
  return ended_ && WIFSIGNALED(status_) && WTERMSIG(status_) == signal;
}
int RankChild::exit_code() const {
  return ended_ && WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
}

std::string RankChild::reason() const {
  if (!ended_) return "still runs";
  if (WIFSIGNALED(status_))
    return fmt::format("killed by signal {} ({})", WTERMSIG(status_), strsignal(WTERMSIG(status_)));
  switch (exit_code()) {
    case exit_ok:
      return "ended well";
    case exit_stopped:
      return "stopped on request";
    case exit_bug:
      return "ended with an internal error (exit code 1)";
    case exit_bad_input:
      return "found bad input (exit code 2)";
    case exit_runtime_failure:
    case exit_final_failure:  // what the program itself ends with then
      return "failed (exit code 3)";
    default:
      return fmt::format("ended with exit code {}", exit_code());
  }
}

void end_with_launcher(const std::map<std::string, std::string>& environment) {
  const auto launcher = environment.find("TRIREME_LAUNCHER_PID");
  if (launcher == environment.end()) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before that call: then this process has another parent by now.
  if (getppid() != std::atoi(launcher->second.c_str())) _exit(exit_runtime_failure);
}

}  // namespace trireme::comm
