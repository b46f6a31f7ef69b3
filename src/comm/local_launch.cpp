#include "comm/local_launch.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/errors.h"
#include "comm/connect_store.h"
#include "comm/error_text.h"
#include "comm/exit_codes.h"
#include "comm/liveness.h"
#include "comm/rank_child.h"
#include "comm/thread_waiting.h"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds grace{5000};  // between SIGTERM and SIGKILL

// Signals are taken in one place, by sigtimedwait; the mask is inherited by the store's threads and not by the ranks.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&set_, signal);
    // A terminal that closes. An ignored signal (nohup) would not be discarded once it is blocked.
    struct sigaction hangup {};
    if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&set_, SIGHUP);
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

void say(const std::string& text) {
  std::fprintf(stderr, "trireme: %s\n", text.c_str());
  std::fflush(stderr);
}

// 128 random bits: nobody else's keys are under this run's.
std::string new_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// One attempt: all ranks from their start to the end of the last.
class Family {
 public:
  struct Ending {
    int code = exit_ok;
    std::string failure;  // "rank 1 was the first to fail: ..."; empty: none
    std::string first;    // of it, the first rank alone
    bool may_start_again = false;
    bool is_final = false;  // another start would end so, too
  };

  Family(const LocalLaunch& launch, const BlockedSignals& signals, int attempt, const std::string& token)
      : launch_(launch), store_(serve_local_store()), keys_(rank_keys(store_, token, attempt)), signals_(signals) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      RankProgram program{.executable = launch_.executable,
                          .arguments = launch_.arguments,
                          .environment = launch_.environment,
                          .signal_mask = signals.before()};
      const RankPlace place{
          .rank = rank, .port = store_->getPort(), .cores = cores, .attempt = attempt, .token = token};
      for (const auto& [name, value] : rank_environment(launch_, place)) program.environment[name] = value;
      ranks_.emplace_back(program);
    }
  }
  ~Family() { send_all(SIGKILL); }  // only after an error half-way: otherwise all have ended
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  Ending look_after() {
    while (num_alive() > 0) {
      const int signal = signals_.wait(milliseconds(100));
      if (signal == SIGUSR1) send_all(signal);
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) stop(signal);
      reap();
      if (Clock::now() > deadline_) {
        send_all(terminated_ ? SIGKILL : SIGTERM);
        terminated_ = true;
        deadline_ = Clock::now() + grace;
      }
    }
    return ending();
  }

 private:
  RankChild& rank(int i) { return ranks_[static_cast<std::size_t>(i)]; }

  int num_alive() const {
    int alive = 0;
    for (const RankChild& rank : ranks_) alive += rank.ended() ? 0 : 1;
    return alive;
  }

  void send_all(int signal) const {
    for (const RankChild& rank : ranks_) rank.send(signal);
  }

  void stop(int signal) {
    if (signal == SIGHUP && stop_signal_ != 0) return;  // a shell and the system may both send it
    killed_on_request_ = stop_signal_ != 0;
    say(killed_on_request_ ? "kills all ranks" : "asks the ranks to stop; again to kill them");
    send_all(killed_on_request_ ? SIGKILL : signal);
    stop_signal_ = signal;
  }

  void reap() {
    int failed = -1;
    for (int i = 0; i < launch_.ranks; ++i) {
      if (rank(i).ended() || !rank(i).reap()) continue;
      if (stop_signal_ != 0 && rank(i).killed_by(stop_signal_)) {
        // It had not begun to train, so the others cannot save without it.
        unheeded_ = true;
        send_all(SIGKILL);
      }
      // Of those that have ended since the last look, one that was killed comes before one that may have failed of
      // that.
      if (rank(i).failed() && (failed < 0 || (rank(i).exit_code() < 0 && rank(failed).exit_code() >= 0))) failed = i;
    }
    if (failed >= 0 && !first_ && !killed_on_request_ && !unheeded_) note_death(failed);
    // The one that the others have found dead, and have left, will not end by itself.
    if (first_ && num_alive() == 1 && !rank(first_->rank).ended() && !first_->reason.starts_with("failed: "))
      rank(first_->rank).send(SIGKILL);
  }

  void note_death(int failed) {
    deadline_ = Clock::now() + launch_.timeout;
    first_ = DeadRank{.rank = failed, .reason = rank(failed).reason()};
    try {
      // The ranks may know better than the order of ends: a rank that no longer beats ends last of all.
      Liveness::report_death(*keys_, first_->rank, first_->reason);
      const auto known = Liveness::verdict(*keys_);
      if (known && known->rank >= 0 && known->rank < launch_.ranks) first_ = known;
    } catch (const std::exception& error) {
      say(fmt::format("the ranks could not be told of a death: {}", error_text(error)));
    }
  }

  Ending ending() {
    if (killed_on_request_) {
      say("killed all ranks on request");
      return {.code = exit_killed_on_request};
    }
    if (unheeded_) {
      say("stopped before the ranks had begun to train; nothing was saved");
      return {.code = exit_killed_on_request};
    }
    if (!first_) {
      for (const RankChild& r : ranks_)
        if (r.exit_code() == exit_stopped) return {.code = exit_stopped};
      return {};
    }
    const RankChild& first = rank(first_->rank);
    Ending out;
    // What it has said of itself stands above, in full.
    const bool own_end = first_->reason.starts_with("failed: ");
    out.first =
        fmt::format("rank {} was the first to fail: {}", first_->rank, own_end ? first.reason() : first_->reason);
    std::string others;
    bool bad_input = false;
    for (int i = 0; i < launch_.ranks; ++i) {
      bad_input |= rank(i).exit_code() == exit_bad_input;
      out.is_final |= rank(i).exit_code() == exit_final_failure;
      if (i != first_->rank) others += fmt::format("{} rank {} {}", others.empty() ? ";" : ",", i, rank(i).reason());
    }
    out.failure = out.first + others;
    out.code = bad_input ? exit_bad_input : first.exit_code() == exit_bug ? exit_bug : exit_runtime_failure;
    out.may_start_again = !bad_input && !out.is_final && stop_signal_ == 0;
    return out;
  }

  const LocalLaunch& launch_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
  c10::intrusive_ptr<c10d::Store> keys_;
  const BlockedSignals& signals_;
  std::vector<RankChild> ranks_;
  std::optional<DeadRank> first_;
  Clock::time_point deadline_ = Clock::time_point::max();
  int stop_signal_ = 0;
  bool terminated_ = false;
  bool killed_on_request_ = false;
  bool unheeded_ = false;  // a rank died of the stop signal itself
};

}  // namespace

std::map<std::string, std::string> rank_environment(const LocalLaunch& launch, const RankPlace& place) {
  std::map<std::string, std::string> set{{"RANK", std::to_string(place.rank)},
                                         {"WORLD_SIZE", std::to_string(launch.ranks)},
                                         {"LOCAL_RANK", std::to_string(place.rank)},
                                         {"LOCAL_WORLD_SIZE", std::to_string(launch.ranks)},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"MASTER_PORT", std::to_string(place.port)},
                                         {"TRIREME_LAUNCHED", "1"},
                                         {"TRIREME_LAUNCHER_PID", std::to_string(getpid())},
                                         {"TRIREME_RUN_TOKEN", place.token},
                                         {"TRIREME_ATTEMPT", std::to_string(place.attempt)}};
  if (!launch.environment.contains("OMP_NUM_THREADS"))
    set.emplace("OMP_NUM_THREADS", std::to_string(std::max(1, place.cores / launch.ranks)));
  for (const auto& [name, value] : passive_waiting)
    if (!launch.environment.contains(name)) set.emplace(name, value);
  return set;
}

int launch_local(const LocalLaunch& launch) {
  TRIREME_CHECK(launch.ranks >= 1 && !launch.arguments.empty());
  const BlockedSignals signals;
  const std::string token = new_token();
  for (int attempt = 0;; ++attempt) {
    const Family::Ending ending = Family(launch, signals, attempt, token).look_after();
    const std::string count = attempt == 0 ? ""
                                           : fmt::format("after {} of {} restart{}", attempt, launch.restarts,
                                                         launch.restarts == 1 ? "" : "s");
    if (ending.may_start_again && attempt < launch.restarts) {
      say(fmt::format("{}; restart {} of {}: all ranks start again {}", ending.first, attempt + 1, launch.restarts,
                      launch.goes_on ? launch.goes_on() : ""));
      continue;
    }
    if (!ending.failure.empty())
      say(fmt::format("failed{}{}: {}{}", count.empty() ? "" : " ", count, ending.failure,
                      ending.is_final && attempt < launch.restarts ? "; not started again: it would end in the same way" : ""));
    else if (!count.empty())
      say(fmt::format("ended {}", count));
    return ending.code;
  }
}

}  // namespace trireme::comm
