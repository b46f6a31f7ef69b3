// How far the reading of text is.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace trireme::train {

struct DataBuildProgress {
  std::string doing = "tokenizing";
  std::int64_t bytes_done = 0, bytes_total = 0;  // of the files as they lie on the disk; total 0: unknown, as of a pipe
  std::int64_t num_documents = 0, num_tokens = 0;
  double seconds = 0;
  bool finished = false;
  double fraction() const {
    return bytes_total > 0 ? static_cast<double>(bytes_done) / static_cast<double>(bytes_total) : 1;
  }
  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes_done) / seconds : 0; }
  double seconds_left() const {
    return bytes_per_second() > 0 ? static_cast<double>(bytes_total - bytes_done) / bytes_per_second() : 0;
  }
};
using ShowProgress = std::function<void(const DataBuildProgress&)>;

// Calls `show` twice a second from a thread of its own, so that a single long document or a library that tells nothing
// is no silence; once more, from the caller's, in finish().
class ProgressReport {
 public:
  ProgressReport(ShowProgress show, DataBuildProgress begin);
  ~ProgressReport();
  ProgressReport(const ProgressReport&) = delete;
  ProgressReport& operator=(const ProgressReport&) = delete;

  void update(const std::function<void(DataBuildProgress&)>& change);
  void finish();
  double seconds() const;

 private:
  void run();

  ShowProgress show_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  DataBuildProgress state_;
  std::thread thread_;
};

}  // namespace trireme::train
