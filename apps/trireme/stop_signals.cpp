#include "trireme/stop_signals.h"

#include <csignal>
#include <initializer_list>

namespace trireme::apps {

namespace {
volatile std::sig_atomic_t requested = 0;
void request(int) { requested = 1; }
}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = request;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

bool stop_was_requested() { return requested != 0; }

}  // namespace trireme::apps
