#include "trireme/stop_signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <initializer_list>

#include "comm/exit_codes.h"

namespace trireme::apps {

namespace {

volatile std::sig_atomic_t requested = 0;
volatile std::sig_atomic_t asked_by_user = 0;  // by SIGINT or SIGTERM
StopSignals signals_are;
std::atomic<const char*> current{"this step"};

// In a signal handler: write(2) alone.
void say(std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) return;
}

void request(int signal) {
  const bool by_user = signal != SIGUSR1;
  if (by_user && asked_by_user != 0 && signals_are.second_kills) {
    say({"trireme: killed on request\n"});
    _exit(comm::exit_killed_on_request);
  }
  if (requested == 0 && signals_are.says_so)
    say({"trireme: stopping after ", current.load(), ", then saving a checkpoint", signals_are.second_kills ? "; again to kill\n" : "\n"});
  if (by_user) asked_by_user = 1;
  requested = 1;
}

}  // namespace

void catch_stop_signals(StopSignals how) {
  signals_are = how;
  struct sigaction action {};
  action.sa_handler = request;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

bool stop_was_requested() { return requested != 0; }

void stop_comes_after(const char* what) { current = what; }

}  // namespace trireme::apps
