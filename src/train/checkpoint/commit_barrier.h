// How the ranks agree that a checkpoint is complete. Called from checkpoint threads, so never over the training groups.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Store;
}

namespace trireme::train {

// What the ranks agree on at a meeting: all well, or the error of one of them.
struct Agreed {
  int rank = -1;
  std::string error;  // empty: all well
  bool operator==(const Agreed&) const = default;
};

class CommitBarrier {
 public:
  virtual ~CommitBarrier() = default;
  // Blocks until every rank has arrived at `key`, each once, with its error (empty: all well). Returns the same on all.
  // RuntimeFailure when a rank does not come in time, or after cancel.
  virtual Agreed arrive(const std::string& key, int rank, const std::string& error) = 0;
  // Ends waiting, now and later: the run is failing and nobody may come any more.
  virtual void cancel() = 0;
};

// Ranks that are threads of one process, or a single rank. Shared by all of them.
class InProcessCommitBarrier : public CommitBarrier {
 public:
  explicit InProcessCommitBarrier(int num_ranks = 1, std::chrono::milliseconds timeout = std::chrono::minutes(10));
  Agreed arrive(const std::string& key, int rank, const std::string& error) override;
  void cancel() override;

 private:
  struct Meeting {
    int arrived = 0;
    Agreed agreed;
  };
  int num_ranks_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Meeting> meetings_;
  bool cancelled_ = false;
};

// Ranks that are processes: a counter in the launcher's store, polled (a blocking wait would hold the store's lock
// against the heartbeats). Keys: <prefix>/<key>/{arrived,error,rank-R}; the prefix must be fresh in each run.
// How long a rank writes is for its file system to say, so a rank that lives is waited for: give `in_vain`, which says why
// nobody may wait any more (a rank is dead; empty: all live), and an ample time-out.
class StoreCommitBarrier : public CommitBarrier {
 public:
  StoreCommitBarrier(c10::intrusive_ptr<c10d::Store> store, int num_ranks, std::chrono::milliseconds timeout,
                     std::function<std::string()> in_vain = {}, std::string prefix = "checkpoint");
  ~StoreCommitBarrier() override;
  Agreed arrive(const std::string& key, int rank, const std::string& error) override;
  void cancel() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::train
