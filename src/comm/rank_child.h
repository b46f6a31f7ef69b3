// A rank as a child process of its launcher.
#pragma once
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace trireme::comm {

struct RankProgram {
  std::string executable;              // empty: this program
  std::vector<std::string> arguments;  // argv
  std::map<std::string, std::string> environment;
  sigset_t signal_mask{};
};

class RankChild {
 public:
  // Starts it, in a process group of its own and without standard input. RuntimeFailure where that cannot be.
  explicit RankChild(const RankProgram& program);

  bool reap();                  // whether it has ended by now, and with it what it had started
  void send(int signal) const;  // SIGKILL to its whole process group: what it has started must not outlive it

  bool ended() const { return ended_; }
  bool failed() const;  // ended, neither well nor stopped on request
  bool killed_by(int signal) const;
  int exit_code() const;       // -1: none
  std::string reason() const;  // of the end: "killed by signal 9 (Killed)"

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;  // of waitpid, once it has ended
};

// For a rank that a launcher of this host has started (TRIREME_LAUNCHER_PID): from here on the rank is killed when the
// launcher dies, whatever the rank is doing then, and ends here where the launcher has died already. Called first of
// all.
void end_with_launcher(const std::map<std::string, std::string>& environment);

}  // namespace trireme::comm
