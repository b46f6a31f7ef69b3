#include "parallel/thread_policy.h"

#include <sched.h>

#include <thread>

#include <gtest/gtest.h>

namespace trireme::parallel {
namespace {

TEST(ThreadPolicy, IsInheritedByTheThreadsMadeAfterwards) {
  int inherited = -1;
  std::thread([&] {
    use_batch_scheduling();
    std::thread([&] { inherited = sched_getscheduler(0); }).join();
  }).join();
  EXPECT_EQ(inherited, SCHED_BATCH);
}

}  // namespace
}  // namespace trireme::parallel
