// One run at a time writes into a folder: rank 0 holds run.lock while the program runs.
//
// It is made by link(2), which one of two succeeds with on network file systems too; no file lock is relied on. The holder
// counts `beat` up. A lease whose process is gone from this machine is taken over at once. Of another machine, or of another
// container, it is taken over when its counter has stood still for `stale`: clocks are not compared.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "train/run_folder/run_identity.h"

namespace trireme::train {

struct RunLeaseOptions {
  std::filesystem::path folder;  // made where it does not exist
  RunIdentity identity;
  std::chrono::milliseconds renew = std::chrono::seconds(2);
  std::chrono::milliseconds stale = std::chrono::seconds(30);
  std::function<void(const std::string&)> on_message;  // before it waits for another machine's counter, and a lease taken over
  std::function<bool()> stop_requested;                // asked while it waits
};

class RunLease {
 public:
  // ConfigError (folder) with who holds it. RuntimeFailure where the wait is stopped.
  explicit RunLease(RunLeaseOptions options);
  ~RunLease();  // gives the folder free, unless another has taken it
  RunLease(const RunLease&) = delete;
  RunLease& operator=(const RunLease&) = delete;

  const RunIdentity& identity() const;
  // RuntimeFailure with the new holder once another run has taken the folder (this one was stopped for longer than `stale`):
  // nothing may be written any more. Looks at the file.
  void check() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::train
