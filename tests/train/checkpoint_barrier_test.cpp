#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/errors.h"
#include "train/checkpoint/commit_barrier.h"
#include "train/checkpoint_fixture.h"

namespace trireme::train {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// One barrier a rank: the store's ranks each have their own, the in-process one is shared.
using Barriers = std::vector<std::shared_ptr<CommitBarrier>>;

Barriers make_barriers(bool with_store, int num_ranks, milliseconds timeout) {
  if (!with_store) {
    return Barriers(static_cast<std::size_t>(num_ranks), std::make_shared<InProcessCommitBarrier>(num_ranks, timeout));
  }
  auto store = c10::make_intrusive<c10d::HashStore>();
  Barriers barriers;
  for (int rank = 0; rank < num_ranks; ++rank) {
    barriers.push_back(std::make_shared<StoreCommitBarrier>(store, num_ranks, timeout));
  }
  return barriers;
}

class Barrier : public testing::TestWithParam<bool> {};

TEST_P(Barrier, WaitsForAllRanksAndTellsAllOfOneError) {
  for (const int num_ranks : {1, 3}) {
    const Barriers barriers = make_barriers(GetParam(), num_ranks, milliseconds(20000));
    std::atomic<int> arrived{0};
    for_all_ranks(num_ranks, [&](int rank) {
      CommitBarrier& barrier = *barriers[static_cast<std::size_t>(rank)];
      if (rank == num_ranks - 1) std::this_thread::sleep_for(milliseconds(30));
      ++arrived;
      EXPECT_EQ(barrier.arrive("0/written", rank, ""), Agreed{});
      EXPECT_EQ(arrived, num_ranks);
      EXPECT_EQ(barrier.arrive("1/written", rank, rank == num_ranks - 1 ? "disk full" : ""),
                (Agreed{.rank = num_ranks - 1, .error = "disk full"}));
      EXPECT_EQ(barrier.arrive("2/written", rank, ""), Agreed{});
    });
  }
}

TEST_P(Barrier, GivesUpWhenARankDoesNotCome) {
  const Barriers barriers = make_barriers(GetParam(), 3, milliseconds(50));
  for_all_ranks(2, [&](int rank) {
    try {
      barriers[static_cast<std::size_t>(rank)]->arrive("0/written", rank, "");
      ADD_FAILURE() << "no error";
    } catch (const RuntimeFailure& error) {
      EXPECT_EQ(error.detail().operation, "checkpoint 0/written");
      if (GetParam()) {
        EXPECT_EQ(error.detail().rank, 2);
        EXPECT_EQ(error.detail().reason, "did not arrive in 50 ms: 2");
      } else {
        EXPECT_EQ(error.detail().reason, "2 of 3 ranks arrived in time");
      }
    }
  });
}

TEST_P(Barrier, CancelEndsTheWait) {
  const Barriers barriers = make_barriers(GetParam(), 2, milliseconds(60000));
  std::thread canceller([&] {
    std::this_thread::sleep_for(milliseconds(30));
    barriers[0]->cancel();
  });
  try {
    barriers[0]->arrive("0/written", 0, "");
    ADD_FAILURE() << "no error";
  } catch (const RuntimeFailure& error) {
    EXPECT_EQ(error.detail().reason, "cancelled");
  }
  canceller.join();
}

// The time-out is an hour: only the news of the death can end the wait.
TEST(StoreBarrier, AKnownDeathEndsTheWait) {
  std::atomic<bool> dead{false};
  StoreCommitBarrier barrier(c10::make_intrusive<c10d::HashStore>(), 2, std::chrono::hours(1),
                             [&] { return dead ? "rank 1: killed by signal 9" : ""; });
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(30));
    dead = true;
  });
  try {
    barrier.arrive("0/written", 0, "");
    ADD_FAILURE() << "no error";
  } catch (const RuntimeFailure& error) {
    EXPECT_EQ(error.detail().reason, "rank 1: killed by signal 9");
  }
  killer.join();
}

INSTANTIATE_TEST_SUITE_P(Kinds, Barrier, testing::Bool(),
                         [](const auto& info) { return info.param ? "store" : "in_process"; });

}  // namespace
}  // namespace trireme::train
