// Starts the ranks of one host as processes and looks after them: serves the store for rendezvous and liveness, passes
// stop signals on, tells the living ranks at once which rank died, starts all of them again where that is wanted, and
// sums their ends up in one exit code.
#pragma once
#include <chrono>
#include <functional>
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
  // How often all ranks are started again after one has died or failed; not after bad input, a FinalFailure or a requested stop. They
  // find TRIREME_ATTEMPT = 1, 2, ... and a store of their own. `goes_on` says for a message where from: "from step 40".
  int restarts = 0;
  std::function<std::string()> goes_on;
};

// Blocks until all ranks have ended. The ranks get the variables that torchrun sets and TRIREME_LAUNCHED=1
// (launch_env.h); standard output and error are passed through, standard input is empty; each is in a process group of
// its own, so that a terminal's Ctrl-C reaches them once, through this process. The first SIGINT, SIGTERM or SIGHUP is passed
// on (so is every SIGUSR1), the second kills. Returns 0 if all ranks ended with 0; 75 where they stopped on request; 2
// if a rank found bad input; 130 if they were killed on request, or before they could heed it; else 3, or 1 for a bug,
// as the first rank that failed: the one that the ranks' liveness has found dead, else the first that ended so. A
// failure is summed up in one line on standard error. RuntimeFailure where a rank cannot be started. Signals must not
// be waited for elsewhere in the process meanwhile.
int launch_local(const LocalLaunch& launch);

// What a rank gets on top of the launcher's own variables.
struct RankPlace {
  int rank = 0;
  int port = 0;
  int cores = 1;
  int attempt = 0;
  std::string token;  // LaunchEnv::token
};
std::map<std::string, std::string> rank_environment(const LocalLaunch& launch, const RankPlace& place);

}  // namespace trireme::comm
