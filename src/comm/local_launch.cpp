#include "comm/local_launch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/errors.h"
#include "comm/error_text.h"
#include "comm/launch_env.h"
#include "comm/liveness.h"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds grace{5000};  // between SIGTERM and SIGKILL
constexpr int exit_killed_on_request = 130;

// A store server on a free port of the loopback interface: nobody else on the network is to write there.
c10::intrusive_ptr<c10d::TCPStore> serve_store() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw RuntimeFailure({.operation = "serve the store", .reason = std::strerror(errno)});
  c10d::TCPStoreOptions options;
  options.port = ntohs(address.sin_port);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = fd;  // taken over
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

// Signals are taken in one place, by sigtimedwait; the mask is inherited by the store's threads and not by the ranks.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  int wait(milliseconds limit) const {  // 0: none came
    const timespec t{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1000000};
    const int signal = sigtimedwait(&set_, nullptr, &t);
    return signal > 0 ? signal : 0;
  }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t set_{}, before_{};
};

pid_t start(const LocalLaunch& launch, const std::map<std::string, std::string>& environment, const sigset_t& mask) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) lines.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> variables, arguments;
  for (std::string& line : lines) variables.push_back(line.data());
  for (const std::string& argument : launch.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  variables.push_back(nullptr);
  arguments.push_back(nullptr);

  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &mask);
  // A process group in the background must not read the terminal.
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const std::string program = launch.executable.empty() ? "/proc/self/exe" : launch.executable;
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &files, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw RuntimeFailure({.operation = fmt::format("start {}", program), .reason = std::strerror(error)});
  return pid;
}

struct Rank {
  pid_t pid = -1;
  bool ended = false;
  int status = 0;  // of waitpid, once it has ended

  bool failed() const { return ended && status != 0; }
  bool killed_by(int signal) const { return ended && WIFSIGNALED(status) && WTERMSIG(status) == signal; }
  int exit_code() const { return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
  std::string reason() const {
    if (WIFSIGNALED(status))
      return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    switch (exit_code()) {
      case exit_bug:
        return "ended with an internal error (exit code 1)";
      case exit_bad_input:
        return "found bad input (exit code 2)";
      case exit_runtime_failure:
        return "failed (exit code 3)";
      default:
        return fmt::format("ended with exit code {}", exit_code());
    }
  }
};

class Family {
 public:
  Family(const LocalLaunch& launch, const BlockedSignals& signals, c10::intrusive_ptr<c10d::TCPStore> store)
      : launch_(launch), signals_(signals), store_(std::move(store)) {}
  ~Family() { send_all(SIGKILL); }  // only after an error half-way: otherwise all have ended

  void start_all() {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      auto environment = launch_.environment;
      for (const auto& [name, value] : rank_environment(launch_, rank, store_->getPort(), cores))
        environment[name] = value;
      ranks_.push_back({.pid = start(launch_, environment, signals_.before())});
    }
  }

  int look_after() {
    while (num_alive() > 0) {
      const int signal = signals_.wait(milliseconds(100));
      if (signal == SIGINT || signal == SIGTERM) stop(signal);
      reap();
      if (Clock::now() > deadline_) {
        send_all(terminated_ ? SIGKILL : SIGTERM);
        terminated_ = true;
        deadline_ = Clock::now() + grace;
      }
    }
    return summary();
  }

 private:
  int num_alive() const {
    int alive = 0;
    for (const Rank& rank : ranks_) alive += rank.ended ? 0 : 1;
    return alive;
  }

  void send_all(int signal) const {
    // SIGKILL goes to a rank's whole process group: what it has started must not outlive it.
    for (const Rank& rank : ranks_)
      if (!rank.ended) kill(signal == SIGKILL ? -rank.pid : rank.pid, signal);
  }

  void stop(int signal) {
    killed_on_request_ = stop_signal_ != 0;
    send_all(killed_on_request_ ? SIGKILL : signal);
    stop_signal_ = signal;
  }

  void reap() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      siginfo_t info{};
      if (rank.ended || waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid != rank.pid)
        continue;
      kill(-rank.pid, SIGKILL);  // what it started and left behind; before its number is free for others
      waitpid(rank.pid, &rank.status, 0);
      rank.ended = true;
      const bool stopped = stop_signal_ != 0 && (killed_on_request_ || rank.killed_by(stop_signal_));
      if (!rank.failed() || first_failed_ >= 0 || stopped) continue;
      first_failed_ = static_cast<int>(i);
      deadline_ = Clock::now() + launch_.timeout;
      try {
        Liveness::report_death(*rank_keys(store_, 0), static_cast<int>(i), rank.reason());
      } catch (const std::exception& error) {
        std::fprintf(stderr, "trireme: the ranks could not be told of a death: %s\n", error_text(error).c_str());
      }
    }
  }

  int summary() const {
    if (killed_on_request_) {
      std::fprintf(stderr, "trireme: killed all ranks on request\n");
      return exit_killed_on_request;
    }
    if (first_failed_ < 0) {
      for (const Rank& rank : ranks_)
        if (rank.failed()) return exit_killed_on_request;  // before it could handle the stop signal
      return exit_ok;
    }
    const auto first_index = static_cast<std::size_t>(first_failed_);
    const Rank& first = ranks_[first_index];
    std::string others;
    bool bad_input = false;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      bad_input |= ranks_[i].exit_code() == exit_bad_input;
      if (i != first_index)
        others += fmt::format("{} rank {} {}", others.empty() ? ";" : ",", i,
                              ranks_[i].failed() ? ranks_[i].reason() : "ended well");
    }
    std::fprintf(stderr, "trireme: failed: rank %d was the first to fail: %s%s\n", first_failed_,
                 first.reason().c_str(), others.c_str());
    if (bad_input) return exit_bad_input;
    return first.exit_code() == exit_bug ? exit_bug : exit_runtime_failure;
  }

  const LocalLaunch& launch_;
  const BlockedSignals& signals_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
  std::vector<Rank> ranks_;
  int first_failed_ = -1;
  Clock::time_point deadline_ = Clock::time_point::max();
  int stop_signal_ = 0;
  bool terminated_ = false;
  bool killed_on_request_ = false;
};

}  // namespace

std::map<std::string, std::string> rank_environment(const LocalLaunch& launch, int rank, int port, int num_cores) {
  std::map<std::string, std::string> set{{"RANK", std::to_string(rank)},
                                         {"WORLD_SIZE", std::to_string(launch.ranks)},
                                         {"LOCAL_RANK", std::to_string(rank)},
                                         {"LOCAL_WORLD_SIZE", std::to_string(launch.ranks)},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"MASTER_PORT", std::to_string(port)},
                                         {"TRIREME_LAUNCHED", "1"}};
  const auto given = launch.environment.find("OMP_NUM_THREADS");
  if (given == launch.environment.end())
    set.emplace("OMP_NUM_THREADS", std::to_string(std::max(1, num_cores / launch.ranks)));
  const int threads = std::atoi((given == launch.environment.end() ? set["OMP_NUM_THREADS"] : given->second).c_str());
  // Threads that spin for work while another rank needs the core made two ranks on two cores 17 times slower.
  if (launch.ranks * threads > num_cores) {
    if (!launch.environment.contains("OMP_WAIT_POLICY")) set.emplace("OMP_WAIT_POLICY", "passive");
    if (!launch.environment.contains("GOMP_SPINCOUNT")) set.emplace("GOMP_SPINCOUNT", "0");
  }
  return set;
}

int launch_local(const LocalLaunch& launch) {
  TRIREME_CHECK(launch.ranks >= 1 && !launch.arguments.empty());
  const BlockedSignals signals;
  Family family(launch, signals, serve_store());
  family.start_all();
  return family.look_after();
}

}  // namespace trireme::comm
