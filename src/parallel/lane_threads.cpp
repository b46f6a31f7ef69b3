#include <omp.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "base/errors.h"
#include "parallel/lanes.h"

namespace trireme::parallel {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int compute_lane = static_cast<int>(plan::Lane::compute);

// One lock for all lanes: it is held for microseconds between actions that take much longer. Hand-over wakes only the
// lanes whose next action has become ready. A thread never spins: ranks share cores.
class LaneThreads : public Lanes {
 public:
  LaneThreads(const plan::StagePlan& stage, SegmentRunner& runner, std::function<void()> on_failure)
      : stage_(stage), runner_(runner), on_failure_(std::move(on_failure)) {
    const auto n = stage_.actions.size();
    dependents_.resize(n);
    num_waits_.resize(n);
    for (const plan::Action& action : stage_.actions) {
      lanes_[index_of(action)].actions.push_back(action.id);
      num_waits_[action.id] = static_cast<int>(action.waits.size());
      for (const int wait : action.waits) dependents_.at(wait).push_back(action.id);
    }
    try {
      for (int lane = 0; lane < plan::num_lanes; ++lane)
        if (lane != compute_lane && !lanes_[lane].actions.empty())
          lanes_[lane].thread = std::thread([this, lane] { serve(lane); });
    } catch (...) {
      stop();  // a limit on threads or memory: those that have started must end before they are destroyed
      throw;
    }
  }

  ~LaneThreads() override { stop(); }

  LaneFailure run(std::vector<plan::Span>& spans) override {
    std::unique_lock lock(mutex_);
    TRIREME_CHECK(!failure_.error, "an executor that has failed is run again");
    spans_ = &spans;
    start_ = Clock::now();
    missing_ = num_waits_;
    remaining_ = stage_.actions.size();
    for (Lane& lane : lanes_) lane.next = 0;
    for (int lane = 0; lane < plan::num_lanes; ++lane)
      if (lane != compute_lane && runnable(lane)) lanes_[lane].wake.notify_one();

    while (remaining_ > 0 && !failure_.error) {
      if (runnable(compute_lane))
        execute(compute_lane, lock);
      else if (const int lane = borrowed_lane(); lane >= 0)
        execute(lane, lock);
      else
        lanes_[compute_lane].wake.wait(lock);
    }
    if (failure_.error) {
      lanes_[compute_lane].wake.wait(
          lock, [&] { return std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.busy; }); });
      remaining_ = 0;
    }
    spans_ = nullptr;
    return failure_;
  }

 private:
  struct Lane {
    std::vector<int> actions;  // in order
    std::size_t next = 0;
    bool busy = false;
    std::condition_variable wake;
    std::thread thread;
  };

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    for (Lane& lane : lanes_) lane.wake.notify_one();
    for (Lane& lane : lanes_)
      if (lane.thread.joinable()) lane.thread.join();
  }

  static int index_of(const plan::Action& action) { return static_cast<int>(action.lane); }

  // A communication lane's thread.
  void serve(int lane) {
    const c10::NoGradGuard no_grad;
    // No OpenMP team for a thread that communicates; torch would make one of its own accord.
    at::internal::lazy_init_num_threads();
    omp_set_num_threads(1);
    std::unique_lock lock(mutex_);
    while (true) {
      lanes_[lane].wake.wait(lock, [&] { return stopping_ || runnable(lane); });
      if (stopping_) return;
      execute(lane, lock);
    }
  }

  int head(int lane) const {
    const Lane& l = lanes_[lane];
    return l.next < l.actions.size() ? l.actions[l.next] : -1;
  }

  bool runnable(int lane) const {
    if (remaining_ == 0 || failure_.error || lanes_[lane].busy) return false;
    const int id = head(lane);
    return id >= 0 && missing_[id] == 0;
  }

  // When the compute thread would only wait for one action that an idle lane could start now, it executes it itself:
  // the same order, without two hand-overs between threads.
  int borrowed_lane() const {
    const int id = head(compute_lane);
    if (id < 0 || missing_[id] != 1) return -1;
    for (const int wait : stage_.actions[id].waits) {
      const int lane = index_of(stage_.actions[wait]);
      if (head(lane) == wait && runnable(lane)) return lane;
    }
    return -1;
  }

  // Runs the lane's next action on this thread, without the lock.
  void execute(int lane, std::unique_lock<std::mutex>& lock) {
    const int id = head(lane);
    const bool computing = lane == compute_lane || std::this_thread::get_id() != lanes_[lane].thread.get_id();
    lanes_[lane].busy = true;
    lock.unlock();
    const auto begin = Clock::now();
    std::exception_ptr error;
    try {
      runner_.run(stage_.actions[id]);
    } catch (...) {
      error = std::current_exception();
    }
    const auto end = Clock::now();
    lock.lock();
    if (error && !failure_.error) {
      failure_ = {error, id};
      if (on_failure_) {
        lock.unlock();
        on_failure_();  // ends what other lanes, the compute lane included, are blocked in
        lock.lock();
      }
    }
    lanes_[lane].busy = false;
    if (failure_.error) {
      lanes_[compute_lane].wake.notify_one();
      return;
    }
    (*spans_)[id] = {std::chrono::duration<double>(begin - start_).count(),
                     std::chrono::duration<double>(end - start_).count()};
    ++lanes_[lane].next;
    --remaining_;
    for (const int dependent : dependents_[id]) --missing_[dependent];
    // This thread goes on with its own lane; a thread that computes may also borrow one.
    const int borrowed = computing && !runnable(compute_lane) ? borrowed_lane() : -1;
    for (int other = 0; other < plan::num_lanes; ++other) {
      if (other == borrowed || (other == compute_lane ? computing : (other == lane && !computing))) continue;
      if (other == compute_lane ? (remaining_ == 0 || runnable(other)) : runnable(other))
        lanes_[other].wake.notify_one();
    }
  }

  const plan::StagePlan& stage_;
  SegmentRunner& runner_;
  std::function<void()> on_failure_;
  std::vector<std::vector<int>> dependents_;
  std::vector<int> num_waits_;

  std::mutex mutex_;
  std::array<Lane, plan::num_lanes> lanes_;
  std::vector<int> missing_;   // waits that are not complete, by action
  std::size_t remaining_ = 0;  // actions that are not complete; 0 between steps
  bool stopping_ = false;
  LaneFailure failure_;
  std::vector<plan::Span>* spans_ = nullptr;
  Clock::time_point start_;
};

}  // namespace

std::unique_ptr<Lanes> make_lane_threads(const plan::StagePlan& stage, SegmentRunner& runner,
                                         std::function<void()> on_failure) {
  return std::make_unique<LaneThreads>(stage, runner, std::move(on_failure));
}

}  // namespace trireme::parallel
