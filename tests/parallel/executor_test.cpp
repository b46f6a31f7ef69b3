// The executor alone, with a runner that only records: order, hand-over between lanes, failures.
#include "parallel/executor.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "parallel/lanes.h"

namespace trireme::parallel {
namespace {

using plan::Action;
using plan::ActionKind;
using plan::Lane;
using ::testing::HasSubstr;

class Recorder : public SegmentRunner {
 public:
  void begin_step() override {
    const std::lock_guard lock(mutex_);
    done.clear();
    threads.clear();
  }
  void run(const Action& action) override {
    if (body) body(action);
    const std::lock_guard lock(mutex_);
    done.push_back(action.id);
    threads[action.id] = std::this_thread::get_id();
  }
  void end_step(StepResult&) override {}

  std::function<void(const Action&)> body;
  std::vector<int> done;
  std::map<int, std::thread::id> threads;

 private:
  std::mutex mutex_;
};

plan::StagePlan stage_of(std::vector<Action> actions) {
  plan::StagePlan stage;
  for (std::size_t i = 0; i < actions.size(); ++i) actions[i].id = static_cast<int>(i);
  stage.actions = std::move(actions);
  return stage;
}

Action on(Lane lane, std::vector<int> waits = {}) {
  return {.lane = lane, .waits = std::move(waits)};
}

// Every wait and every earlier action of the lane comes first.
void expect_order(const plan::StagePlan& stage, const std::vector<int>& done) {
  ASSERT_EQ(done.size(), stage.actions.size());
  std::vector<std::size_t> place(done.size());
  for (std::size_t i = 0; i < done.size(); ++i) place.at(static_cast<std::size_t>(done[i])) = i;
  std::map<Lane, int> last;
  for (const Action& a : stage.actions) {
    for (const int wait : a.waits) EXPECT_LT(place[wait], place[a.id]) << wait << " before " << a.id;
    if (last.contains(a.lane)) {
      EXPECT_LT(place[last[a.lane]], place[a.id]) << "order of lane " << plan::name_of(a.lane);
    }
    last[a.lane] = a.id;
  }
}

plan::StagePlan random_stage(int seed, int size) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<Action> actions;
  for (int i = 0; i < size; ++i) {
    std::set<int> waits;
    for (int w = 0; w < static_cast<int>(random() % 3) && i > 0; ++w)
      waits.insert(i - 1 - static_cast<int>(random() % std::min(i, 8)));
    actions.push_back(on(static_cast<Lane>(random() % plan::num_lanes), {waits.begin(), waits.end()}));
  }
  return stage_of(std::move(actions));
}

TEST(Executor, KeepsEveryEdgeAndEveryLanesOrder) {
  for (int seed = 0; seed < 20; ++seed) {
    const plan::StagePlan stage = random_stage(seed, 200);
    Recorder recorder;
    Executor executor(stage, recorder, {});
    for (int step = 0; step < 5; ++step) {
      const StepResult result = executor.run();
      expect_order(stage, recorder.done);
      // Spans say the same: an action starts when its waits have ended.
      for (const Action& a : stage.actions) {
        const plan::Span span = result.timeline.spans[a.id];
        EXPECT_LE(span.start_s, span.end_s);
        EXPECT_LE(span.end_s, result.timeline.step_s);
        for (const int wait : a.waits) EXPECT_LE(result.timeline.spans[wait].end_s, span.start_s);
      }
    }
  }
}

TEST(Executor, AStepWithoutActionsEnds) {
  const plan::StagePlan stage;
  Recorder recorder;
  Executor executor(stage, recorder, {});
  EXPECT_TRUE(executor.run().timeline.spans.empty());
}

TEST(Executor, LanesRunAtTheSameTime) {
  // Each of the two actions ends only when the other has begun.
  const plan::StagePlan stage = stage_of({on(Lane::ep), on(Lane::compute), on(Lane::compute, {0})});
  Recorder recorder;
  std::mutex mutex;
  std::condition_variable met;
  int arrived = 0;
  bool together = true;
  recorder.body = [&](const Action& action) {
    if (action.id == 2) return;
    std::unique_lock lock(mutex);
    ++arrived;
    met.notify_all();
    if (!met.wait_for(lock, std::chrono::seconds(20), [&] { return arrived == 2; })) together = false;
  };
  Executor executor(stage, recorder, {});
  executor.run();
  EXPECT_TRUE(together);
}

TEST(Executor, ComputeBorrowsTheLaneThatItWaitsFor) {
  // compute 0 -> ep 1 -> compute 2: nothing could overlap, so no thread is woken for it.
  const plan::StagePlan stage = stage_of({on(Lane::compute), on(Lane::ep, {0}), on(Lane::compute, {1})});
  Recorder recorder;
  Executor executor(stage, recorder, {});
  executor.run();
  EXPECT_THAT(recorder.done, ::testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(recorder.threads[1], std::this_thread::get_id());
}

TEST(Executor, CommunicationThatComputeDoesNotWaitForLeavesItsThread) {
  const plan::StagePlan stage = stage_of({on(Lane::compute), on(Lane::dp, {0}), on(Lane::compute)});
  Recorder recorder;
  Executor executor(stage, recorder, {});
  executor.run();
  EXPECT_NE(recorder.threads[1], std::this_thread::get_id());
}

std::string failure_of(Executor& executor) {
  try {
    executor.run();
  } catch (const RuntimeFailure& failure) {
    return failure.what();
  }
  return "no RuntimeFailure";
}

TEST(Executor, AFailureNamesRankActionAndGroupAndStopsTheOtherLanes) {
  plan::StagePlan stage = stage_of({on(Lane::dp), on(Lane::compute), on(Lane::ep), on(Lane::compute, {0, 2})});
  stage.actions[2] = {.id = 2,
                      .kind = ActionKind::all_to_all,
                      .segment = model::Segment::dispatch,
                      .mb = 3,
                      .layer = 1,
                      .lane = Lane::ep,
                      .group = Axis::ep};
  Recorder recorder;
  std::atomic<bool> aborted = false;
  std::atomic<int> aborts = 0;
  recorder.body = [&](const Action& action) {
    if (action.id == 2) throw std::runtime_error("cable cut");
    // The reduction blocks until the failing lane ends what others wait in.
    while (action.id == 0 && !aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (action.id == 0) throw std::runtime_error("aborted");
    EXPECT_NE(action.id, 3) << "started after the failure";
  };
  Executor executor(stage, recorder,
                    {.rank = 5,
                     .on_failure = [&] { ++aborts, aborted = true; },
                     .group_name = [](const Action&) { return std::string("ep {4,5}"); }});
  const std::string text = failure_of(executor);
  EXPECT_THAT(text, HasSubstr("rank 5"));
  EXPECT_THAT(text, HasSubstr(plan::describe(stage.actions[2])));
  EXPECT_THAT(text, HasSubstr("ep {4,5}"));
  EXPECT_THAT(text, HasSubstr("cable cut"));
  EXPECT_EQ(aborts, 1);
  EXPECT_THROW(executor.run(), std::logic_error) << "a failed executor is of no use";
}

TEST(Executor, ACommunicationFailureKeepsTheRankAtFault) {
  const plan::StagePlan stage = stage_of({on(Lane::dp)});
  Recorder recorder;
  recorder.body = [](const Action&) {
    throw RuntimeFailure({.rank = 2, .operation = "all_reduce bucket", .group = "dp {0,2}", .reason = "killed"});
  };
  Executor executor(stage, recorder, {.rank = 0});
  EXPECT_THAT(failure_of(executor), ::testing::AllOf(HasSubstr("rank 2"), HasSubstr("dp {0,2}"), HasSubstr("killed")));
}

TEST(Executor, BadInputAndBugsKeepTheirKind) {
  const plan::StagePlan stage = stage_of({on(Lane::compute)});
  Recorder recorder;
  recorder.body = [](const Action&) { throw ConfigError({.key = "data.train", .value = "x", .allowed = "y"}); };
  Executor first(stage, recorder, {});
  EXPECT_THROW(first.run(), ConfigError);
  recorder.body = [](const Action&) { TRIREME_CHECK(1 + 1 == 3); };
  Executor second(stage, recorder, {.rank = 3});
  try {
    second.run();
    FAIL() << "no bug";
  } catch (const std::logic_error& bug) {
    EXPECT_THAT(bug.what(), ::testing::AllOf(HasSubstr("1 + 1 == 3"), HasSubstr("rank 3"), HasSubstr("forward")));
  }
}

TEST(LaneStreams, IssueInTheTotalOrder) {
  // What an accelerator does, here on the CPU, whose streams are no-ops: one thread, the list's order.
  const plan::StagePlan stage = random_stage(3, 50);
  Recorder recorder;
  const auto lanes = make_lane_streams(stage, recorder, at::kCPU, {});
  for (int step = 0; step < 2; ++step) {
    recorder.begin_step();
    std::vector<plan::Span> spans(stage.actions.size());
    EXPECT_FALSE(lanes->run(spans).error);
    for (std::size_t i = 0; i < recorder.done.size(); ++i) {
      EXPECT_EQ(recorder.done[i], static_cast<int>(i));
      EXPECT_EQ(recorder.threads[static_cast<int>(i)], std::this_thread::get_id());
    }
    EXPECT_EQ(recorder.done.size(), stage.actions.size());
  }
  recorder.body = [](const Action& action) {
    if (action.id == 7) throw std::runtime_error("seven");
  };
  recorder.begin_step();
  std::vector<plan::Span> spans(stage.actions.size());
  const LaneFailure failure = lanes->run(spans);
  EXPECT_EQ(failure.action, 7);
  EXPECT_EQ(recorder.done.size(), 7u);
}

}  // namespace
}  // namespace trireme::parallel
