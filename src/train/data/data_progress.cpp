#include "train/data/data_progress.h"

namespace trireme::train {

ProgressReport::ProgressReport(ShowProgress show, DataBuildProgress begin)
    : show_(std::move(show)), state_(std::move(begin)) {
  if (show_) thread_ = std::thread([this] { run(); });
}

ProgressReport::~ProgressReport() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressReport::run() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stopped_; })) {
    DataBuildProgress shown = state_;
    shown.seconds = seconds();
    lock.unlock();
    show_(shown);
    lock.lock();
  }
}

void ProgressReport::update(const std::function<void(DataBuildProgress&)>& change) {
  const std::lock_guard lock(mutex_);
  change(state_);
}

void ProgressReport::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    state_.finished = true;
    state_.seconds = seconds();
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (show_) show_(state_);
}

double ProgressReport::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace trireme::train
