// Who is alive: every rank beats in the launcher's store from a thread of its own, and watches the others. A launcher
// that reaps a dead child writes that down at once; a stopped or vanished one is found when its beat is older than the
// time-out. Names the dead rank itself, where a c10d time-out alone names the neighbour that waited.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Store;
}

namespace trireme::comm {

struct DeadRank {
  int rank = -1;
  std::string reason;  // "killed by signal 9", "no heartbeat for 10.2 s", "failed: <its own error>"
};

class Liveness {
 public:
  struct Options {
    int rank = 0;
    int world = 1;
    std::chrono::milliseconds interval{500};
    std::chrono::milliseconds timeout{30000};
    std::string prefix = "liveness";
  };
  // on_death is called once, from the watching thread, with the first rank found dead.
  Liveness(c10::intrusive_ptr<c10d::Store> store, Options options, std::function<void(const DeadRank&)> on_death);
  ~Liveness();  // stops the thread; a rank that ends well calls finish() first

  void finish();                                // this rank ends on purpose: silence is no death
  void fail(const std::string& reason);         // this rank fails: tell the others why
  std::optional<DeadRank> dead() const;
  // For a rank whose operation has just failed: waits until somebody is known dead, at most `limit`.
  std::optional<DeadRank> wait_for_verdict(std::chrono::milliseconds limit) const;

  // The launcher's side: the child `rank` has ended this way.
  static void report_death(c10d::Store& store, int rank, const std::string& reason, const std::string& prefix = "liveness");

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::comm
