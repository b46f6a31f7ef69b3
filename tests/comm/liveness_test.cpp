#include "comm/liveness.h"

#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Waits until `condition` holds; false after a minute, far beyond every time-out here.
template <class Condition>
bool eventually(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

struct Ranks {
  explicit Ranks(int world, milliseconds timeout, c10::intrusive_ptr<c10d::Store> store_to_use = {})
      : store(std::move(store_to_use)) {
    if (!store) store = c10::make_intrusive<c10d::HashStore>();
    deaths.resize(static_cast<std::size_t>(world));
    for (int rank = 0; rank < world; ++rank) {
      ranks.push_back(std::make_unique<Liveness>(
          store, Liveness::Options{.rank = rank, .world = world, .interval = milliseconds(20), .timeout = timeout},
          [this, rank](const DeadRank& dead) {
            const std::lock_guard<std::mutex> lock(mutex);
            deaths[static_cast<std::size_t>(rank)].push_back(dead);
          }));
    }
  }
  std::vector<DeadRank> deaths_seen_by(int rank) {
    const std::lock_guard<std::mutex> lock(mutex);
    return deaths[static_cast<std::size_t>(rank)];
  }

  c10::intrusive_ptr<c10d::Store> store;
  std::mutex mutex;
  std::vector<std::vector<DeadRank>> deaths;
  std::vector<std::unique_ptr<Liveness>> ranks;
};

TEST(Liveness, ASilentRankIsNamedByAll) {
  Ranks r(4, milliseconds(3000));
  ASSERT_TRUE(eventually([&] { return r.store->add("liveness/beat/2", 0) > 0; }));
  r.ranks[2].reset();  // stops without finishing
  for (const int rank : {0, 1, 3}) {
    ASSERT_TRUE(eventually([&] { return !r.deaths_seen_by(rank).empty(); }));
    EXPECT_EQ(r.deaths_seen_by(rank)[0].rank, 2);
    EXPECT_THAT(r.deaths_seen_by(rank)[0].reason, StartsWith("no heartbeat for "));
    EXPECT_EQ(r.ranks[static_cast<std::size_t>(rank)]->dead()->rank, 2);
  }
}

TEST(Liveness, OneRankTellsOfADeath) {
  // Rank 2's death is reported; rank 1 was in touch with it, and tells although it asks last.
  Ranks r(4, milliseconds(60000));
  Liveness::report_death(*r.store, 2, "killed by signal 9");
  for (const int rank : {0, 1, 3})
    ASSERT_TRUE(eventually([&] { return r.ranks[static_cast<std::size_t>(rank)]->dead().has_value(); }));
  std::vector<char> tells(4, 0);
  std::vector<std::thread> asking;
  for (const int rank : {0, 3})
    asking.emplace_back([&, rank] { tells[static_cast<std::size_t>(rank)] = r.ranks[static_cast<std::size_t>(rank)]->tells(); });
  std::this_thread::sleep_for(milliseconds(50));
  r.ranks[1]->note_first_hand();
  tells[1] = r.ranks[1]->tells();
  r.ranks[1]->wait_until_told(std::chrono::minutes(1));
  for (std::thread& t : asking) t.join();
  EXPECT_EQ(tells, (std::vector<char>{0, 1, 0, 0}));
}

TEST(Liveness, WithoutAWitnessTheFirstToAskTells) {
  Ranks r(3, milliseconds(60000));
  Liveness::report_death(*r.store, 2, "killed by signal 9");
  std::vector<char> tells(2, 0);
  std::vector<std::thread> asking;
  for (const std::size_t rank : {0, 1}) asking.emplace_back([&, rank] { tells[rank] = r.ranks[rank]->tells(); });
  for (std::thread& t : asking) t.join();
  EXPECT_EQ(tells[0] + tells[1], 1);
}

TEST(Liveness, RankZeroIsWatchedToo) {
  Ranks r(3, milliseconds(3000));
  r.ranks[0].reset();
  ASSERT_TRUE(eventually([&] { return !r.deaths_seen_by(1).empty() && !r.deaths_seen_by(2).empty(); }));
  EXPECT_EQ(r.deaths_seen_by(1)[0].rank, 0);
}

TEST(Liveness, ARankThatNeverCameIsNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Liveness lonely(store, {.rank = 0, .world = 2, .interval = milliseconds(10), .timeout = milliseconds(300)}, nullptr);
  ASSERT_TRUE(eventually([&] { return lonely.dead().has_value(); }));
  EXPECT_EQ(lonely.dead()->rank, 1);
  EXPECT_THAT(lonely.dead()->reason, StartsWith("no heartbeat at all in "));
}

TEST(Liveness, FinishingIsNoDeath) {
  Ranks r(3, milliseconds(2000));
  ASSERT_TRUE(eventually([&] { return r.store->add("liveness/beat/1", 0) > 0; }));
  r.ranks[1]->finish();
  r.ranks[1].reset();
  std::this_thread::sleep_for(milliseconds(4500));  // twice the time-out
  EXPECT_FALSE(r.ranks[0]->dead());
  EXPECT_FALSE(r.ranks[2]->dead());
  EXPECT_TRUE(r.deaths_seen_by(0).empty());
}

TEST(Liveness, TheLaunchersReportIsPassedOnAndTheFirstOneCounts) {
  Ranks r(3, milliseconds(60000));
  Liveness::report_death(*r.store, 1, "killed by signal 9");
  Liveness::report_death(*r.store, 2, "exit code 3");  // a consequence
  for (const int rank : {0, 2}) {
    ASSERT_TRUE(eventually([&] { return !r.deaths_seen_by(rank).empty(); }));
    EXPECT_EQ(r.deaths_seen_by(rank)[0].rank, 1);
    EXPECT_EQ(r.deaths_seen_by(rank)[0].reason, "killed by signal 9");
  }
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(r.deaths_seen_by(0).size(), 1u) << "on_death is called once";
}

TEST(Liveness, AFailureIsToldWithItsReason) {
  Ranks r(2, milliseconds(60000));
  r.ranks[1]->fail("no space left on the device");
  ASSERT_TRUE(eventually([&] { return !r.deaths_seen_by(0).empty(); }));
  EXPECT_EQ(r.deaths_seen_by(0)[0].rank, 1);
  EXPECT_EQ(r.deaths_seen_by(0)[0].reason, "failed: no space left on the device");
}

TEST(Liveness, AFailureOfAnotherRankIsToldAsThatRanks) {
  // As when rank 0 hears that rank 1's part of a checkpoint could not be written.
  Ranks r(2, milliseconds(60000));
  r.ranks[0]->fail("no space left on the device", 1);
  ASSERT_TRUE(eventually([&] { return !r.deaths_seen_by(1).empty(); }));
  EXPECT_EQ(Liveness::verdict(*r.store)->rank, 1);
  EXPECT_EQ(r.ranks[0]->in_vain(), "rank 1: failed: no space left on the device");
}

TEST(Liveness, AFailedOperationMakesAllRanksSuspicious) {
  // The time-out is an hour; suspicion is max(2 s, 5 intervals) = 2 s. Rank 0 does not watch out of time by itself.
  Ranks r(3, std::chrono::hours(1));
  EXPECT_EQ(r.ranks[0]->suspicion(), milliseconds(2000));
  EXPECT_EQ(r.ranks[0]->patience(), milliseconds(2000 + 1000 + 80));
  r.ranks[2].reset();
  const auto verdict = r.ranks[0]->wait_for_verdict(std::chrono::minutes(1));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 2);
  ASSERT_TRUE(eventually([&] { return !r.deaths_seen_by(1).empty(); }));
}

TEST(Liveness, NoVerdictWhenAllAreAlive) {
  Ranks r(2, milliseconds(60000));
  EXPECT_FALSE(r.ranks[0]->wait_for_verdict(milliseconds(300)));
}

TEST(Liveness, ALostStoreIsItsOwnVerdict) {
  auto server = c10::make_intrusive<c10d::TCPStore>(
      "127.0.0.1", c10d::TCPStoreOptions{.port = 0, .isServer = true, .waitWorkers = false});
  c10d::TCPStoreOptions options;
  options.port = server->getPort();
  options.waitWorkers = false;
  const auto client = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  Ranks r(2, milliseconds(60000), client);
  ASSERT_TRUE(eventually([&] { return server->add("liveness/beat/1", 0) > 0; }));
  server.reset();
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(eventually([&] { return !r.deaths_seen_by(rank).empty(); }));
    EXPECT_EQ(r.deaths_seen_by(rank)[0].rank, -1);
    EXPECT_THAT(r.deaths_seen_by(rank)[0].reason, StartsWith("the launcher's store no longer answers"));
  }
}

TEST(Liveness, AStoreThatARankServesIsThatRank) {
  auto server = c10::make_intrusive<c10d::TCPStore>(
      "127.0.0.1", c10d::TCPStoreOptions{.port = 0, .isServer = true, .waitWorkers = false});
  c10d::TCPStoreOptions options;
  options.port = server->getPort();
  options.waitWorkers = false;
  Liveness liveness(c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options),
                    {.rank = 1, .world = 2, .interval = milliseconds(20), .timeout = milliseconds(60000), .server = 0}, nullptr);
  server.reset();
  ASSERT_TRUE(eventually([&] { return liveness.dead().has_value(); }));
  EXPECT_EQ(liveness.dead()->rank, 0);
  EXPECT_THAT(liveness.dead()->reason, StartsWith("the store that it serves no longer answers"));
  // One line, without libtorch's frames.
  EXPECT_EQ(liveness.dead()->reason.find('\n'), std::string::npos);
  EXPECT_EQ(liveness.dead()->reason.find("frame #"), std::string::npos);
}

TEST(Liveness, TheServingRankWaitsForTheOthers) {
  Ranks r(3, milliseconds(60000));
  r.ranks[0]->finish();
  std::thread others([&] {
    std::this_thread::sleep_for(milliseconds(100));
    r.ranks[1]->finish();
    r.ranks[2]->finish();
  });
  r.ranks[0]->wait_for_others(std::chrono::minutes(5));
  EXPECT_GE(r.store->add("liveness/beat/1", 0), std::int64_t{1} << 40);
  EXPECT_GE(r.store->add("liveness/beat/2", 0), std::int64_t{1} << 40);
  others.join();
}

}  // namespace
}  // namespace trireme::comm
