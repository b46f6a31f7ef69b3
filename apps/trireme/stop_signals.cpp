#include "trireme/stop_signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <initializer_list>

#include "comm/exit_codes.h"

namespace trireme::apps {

namespace {

// Two signals may be handled in two threads at once, so each counts itself in one step.
std::atomic<bool> requested{false};
std::atomic<int> asks_of_user{0};  // SIGINT and SIGTERM
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free, "used in a signal handler");
StopSignals signals_are;
std::atomic<const char*> current{"this step"};

// In a signal handler: write(2) alone, and once for a line, so that two threads do not mix theirs. A longer text is cut.
void say(std::initializer_list<const char*> parts) {
  char line[256];
  std::size_t length = 0;
  for (const char* part : parts)
    for (; *part != '\0' && length < sizeof line; ++part) line[length++] = *part;
  if (write(STDERR_FILENO, line, length) < 0) return;
}

void request(int signal) {
  const bool by_user = signal == SIGINT || signal == SIGTERM;  // a shell and the system may both send SIGHUP
  const bool asked_before = by_user && asks_of_user.fetch_add(1) > 0;
  if (asked_before && signals_are.second_kills) {
    say({"trireme: killed on request\n"});
    _exit(comm::exit_killed_on_request);
  }
  if (!requested.exchange(true) && signals_are.says_so)
    say({"trireme: stopping after ", current.load(), ", then saving a checkpoint", signals_are.second_kills ? "; again to kill\n" : "\n"});
}

}  // namespace

void catch_stop_signals(StopSignals how) {
  signals_are = how;
  struct sigaction action {};
  action.sa_handler = request;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  // Of a terminal that closes. nohup has it ignored, and then it stays so.
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

void request_stop(const char* why) {
  if (!requested.exchange(true))
    say({"trireme: ", why, ": stopping after ", current.load(), ", then saving a checkpoint\n"});
}

bool stop_was_requested() { return requested.load(); }

void stop_comes_after(const char* what) { current = what; }

}  // namespace trireme::apps
