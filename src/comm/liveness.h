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
  int rank = -1;       // -1: none: the store itself, that is its launcher, is gone
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
    int server = -1;  // the rank that serves the store; -1: a launcher does
  };
  // Keeps a connection of its own to the store. on_death is called once, from the watching thread, with the first rank
  // found dead by anyone (all ranks get the same one), unless this rank has finished.
  Liveness(c10::intrusive_ptr<c10d::Store> store, Options options, std::function<void(const DeadRank&)> on_death);
  ~Liveness();  // stops the thread; a rank that ends well calls finish() first

  void finish();  // this rank ends on purpose: silence is no death
  // This rank fails: tell the others why, unless somebody is known to be dead already (then this is only a
  // consequence). `at_fault`: the rank whose failure it is, where that is another one (its disk is full); -1: this one.
  void fail(const std::string& reason, int at_fault = -1);
  std::optional<DeadRank> dead() const;
  // Why nobody may be waited for any more, as one line; empty while no death is known.
  std::string in_vain() const;
  // So that one failure is told once and not by every rank that it ends: whether this rank, which has failed too, is the
  // one to tell. Preferred is the rank that failed by itself, then one whose own operation was with the dead rank
  // (`first_hand`, said by note_first_hand); the first to ask of the others is waited for half a second. True where the
  // store is gone: then nobody can be asked. Once a rank.
  bool tells();
  void note_first_hand();
  // For the rank that serves the store, after tells(): waits until the others have asked.
  void wait_until_told(std::chrono::milliseconds limit) const;
  // For a rank whose operation has just failed: waits until somebody is known dead, at most `limit`. Makes all ranks
  // suspicious: from now on a silence of `suspicion()` is enough.
  std::optional<DeadRank> wait_for_verdict(std::chrono::milliseconds limit) const;
  std::chrono::milliseconds suspicion() const;  // min(timeout, max(2 s, 5 intervals))
  std::chrono::milliseconds patience() const;   // a limit for wait_for_verdict: by then a dead rank has been found
  // For the rank that serves the store, after finish(): waits until every other rank has finished or is dead.
  void wait_for_others(std::chrono::milliseconds limit);

  // The launcher's side: the child `rank` has ended this way.
  static void report_death(c10d::Store& store, int rank, const std::string& reason,
                           const std::string& prefix = "liveness");
  // And whom the ranks, or the launcher, have found to be the first one dead.
  static std::optional<DeadRank> verdict(c10d::Store& store, const std::string& prefix = "liveness");

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::comm
