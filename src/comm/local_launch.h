// Starts the ranks of one host as processes and looks after them: serves the store for rendezvous and liveness, passes
// stop signals on, tells the living ranks at once which rank died, and sums their ends up in one exit code.
#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace trireme::comm {

struct LocalLaunch {
  int ranks = 1;
  std::vector<std::string> arguments;              // argv of every rank; its own argv[0] included
  std::map<std::string, std::string> environment;  // of this process
  // After a rank's death the others have this long to end by themselves; then SIGTERM, and 5 s later SIGKILL.
  std::chrono::milliseconds timeout{60000};
  std::string executable;  // empty: this program
};

// Blocks until all ranks have ended. The ranks get the variables that torchrun sets and TRIREME_LAUNCHED=1
// (launch_env.h); standard output and error are passed through, standard input is empty; each is in a process group of
// its own, so that a terminal's Ctrl-C reaches them once, through this process. The first SIGINT or SIGTERM is passed
// on, the second kills. Returns 0 if all ranks ended with 0; 2 if a rank found bad input; 130 if killed on request;
// else 3, or 1 for a bug, as the first rank that failed. A failure is summed up in one line on standard error.
// RuntimeFailure where a rank cannot be started. Signals must not be waited for elsewhere in the process meanwhile.
int launch_local(const LocalLaunch& launch);

// The variables that `rank` gets on top of the launcher's own.
std::map<std::string, std::string> rank_environment(const LocalLaunch& launch, int rank, int port, int num_cores);

}  // namespace trireme::comm
