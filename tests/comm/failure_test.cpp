// What a rank is told when another one is gone.
#include <atomic>
#include <csignal>
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "comm/error_text.h"
#include "comm/group.h"
#include "comm/issue_order.h"
#include "comm/liveness.h"
#include "support/rank_threads.h"

namespace trireme::comm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::collect_mesh_errors;
using testing::collect_rank_errors;
using ::testing::HasSubstr;
using testing::text_of;

const RuntimeFailure::Detail detail_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RuntimeFailure& failure) {
    return failure.detail();
  } catch (const std::exception& other) {
    ADD_FAILURE() << "not a RuntimeFailure: " << other.what();
  }
  return {};
}

// Writing to the socket of a rank that has just died raises SIGPIPE (signal(7)): by default the end of the process, and
// no error that could be told.
TEST(Failure, ABrokenConnectionDoesNotEndTheProcess) {
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  const auto errors = collect_mesh_errors({.pp = 2}, [](int, Communicator&) { EXPECT_EQ(std::raise(SIGPIPE), 0); });
  for (const auto& error : errors) EXPECT_FALSE(error);
  std::signal(SIGPIPE, before);
}

TEST(Failure, ATimeOutNamesOperationGroupAndNeighbour) {
  std::atomic<bool> over{false};
  constexpr plan::GroupKind to_first = plan::message_group(1, 0, /*gradients=*/true);
  const auto errors =
      collect_mesh_errors({.pp = 2},
                          [&](int rank, Communicator& communicator) {
                            communicator.connect({to_first});
                            if (rank == 1) {
                              while (!over) std::this_thread::sleep_for(milliseconds(5));  // alive, but never sends
                              return;
                            }
                            at::Tensor x = at::empty({8});
                            try {
                              receive(communicator.group(to_first), x, 1, 3, "activation (micro-batch 2)");
                            } catch (...) {
                              over = true;
                              throw;
                            }
                          },
                          {.timeout = milliseconds(500)});
  ASSERT_TRUE(errors[0]);
  const auto detail = detail_of(errors[0]);
  EXPECT_EQ(detail.rank, 1);
  EXPECT_EQ(detail.operation, "receive activation (micro-batch 2)");
  EXPECT_EQ(detail.group, "backward 1>0 {0,1}");
  EXPECT_THAT(text_of(errors[0]), AllOf(HasSubstr("rank 1: "), HasSubstr("Timed out waiting 500ms")));
  EXPECT_FALSE(errors[1]);
}

TEST(Failure, AVanishedMemberEndsACollective) {
  const auto errors = collect_mesh_errors({.dp = 3}, [](int rank, Communicator& communicator) {
    if (rank == 2) return;  // its connections close
    at::Tensor x = at::ones({100});
    all_reduce(communicator.group(Axis::dp), x, ReduceOp::sum, "dense bucket 2");
  });
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(errors[static_cast<std::size_t>(rank)]);
    const auto detail = detail_of(errors[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(detail.operation, "all_reduce dense bucket 2");
    EXPECT_EQ(detail.group, "dp {0,1,2}");
    EXPECT_THAT(detail.reason, AnyOf(HasSubstr("closed by peer"), HasSubstr("reset by peer")));
  }
}

TEST(Failure, AGroupThatCannotConnectSaysSo) {
  const auto errors = collect_rank_errors(2, [](int rank, const c10::intrusive_ptr<c10d::Store>& store) {
    if (rank == 1) return;  // never comes
    Communicator communicator(store, {.rank = 0, .mesh = {.dp = 2}, .timeout = milliseconds(300)});
  });
  ASSERT_TRUE(errors[0]);
  EXPECT_EQ(detail_of(errors[0]).operation, "meet at the store");
  EXPECT_EQ(detail_of(errors[0]).group, "world {0,1}");
}

// With a time-out of an hour these tests end only because abort() ends the pending operation.
class Abort : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Pending, Abort, ::testing::Values("receive", "send", "all_reduce", "all_to_all", "barrier"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Abort, EndsAPendingOperationOfAnotherThread) {
  const std::string kind = GetParam();
  std::atomic<bool> over{false};
  const auto errors = collect_mesh_errors({.dp = 2},
                                          [&](int rank, Communicator& communicator) {
                                            if (rank == 1) {
                                              while (!over) std::this_thread::sleep_for(milliseconds(5));
                                              return;
                                            }
                                            Group& group = communicator.group(Axis::dp);
                                            std::thread watcher([&] {
                                              std::this_thread::sleep_for(milliseconds(200));
                                              communicator.abort();
                                            });
                                            try {
                                              at::Tensor x = at::zeros({1 << 22});  // more than the socket buffers hold
                                              const std::vector<std::int64_t> half{1 << 21, 1 << 21};
                                              if (kind == "receive") receive(group, x, 1, 0, "x");
                                              if (kind == "send") send(group, x, 1, 0, "x");
                                              if (kind == "all_reduce") all_reduce(group, x, ReduceOp::sum, "x");
                                              if (kind == "all_to_all") all_to_all_rows(group, x, half, half, "x");
                                              if (kind == "barrier") barrier(group, "x");
                                            } catch (...) {
                                              watcher.join();
                                              over = true;
                                              throw;
                                            }
                                            watcher.join();
                                            over = true;
                                          },
                                          {.timeout = hours(1)});
  ASSERT_TRUE(errors[0]) << "the operation ended without an error";
  EXPECT_EQ(detail_of(errors[0]).operation, kind + " x");
}

TEST(Failure, AbortEndsWhatWaitsForALivingMemberAfterAnotherHasGone) {
  // Member 1 is gone, so its connections are broken; member 0 waits for member 2, which lives and sends nothing.
  std::atomic<bool> gone{false}, over{false};
  const auto errors = collect_rank_errors(3, [&](int rank, const c10::intrusive_ptr<c10d::Store>& store) {
    auto communicator = std::make_unique<Communicator>(
        store, CommunicatorOptions{.rank = rank, .mesh = {.dp = 3}, .timeout = hours(1)});
    if (rank == 1) {
      communicator.reset();
      gone = true;
      return;
    }
    if (rank == 2) {
      while (!over) std::this_thread::sleep_for(milliseconds(5));
      return;
    }
    while (!gone) std::this_thread::sleep_for(milliseconds(5));
    std::thread watcher([&] {
      std::this_thread::sleep_for(milliseconds(200));
      communicator->abort();
    });
    try {
      at::Tensor x = at::empty({8});
      receive(communicator->group(Axis::dp), x, 2, 0, "x");
    } catch (...) {
      watcher.join();
      over = true;
      throw;
    }
    watcher.join();
    over = true;
  });
  EXPECT_THAT(text_of(errors[0]), HasSubstr("[operation receive x]"));
}

TEST(Failure, TheDeadRankIsNamedAndNotTheNeighbour) {
  // Rank 3 is killed. Rank 0 waits for rank 1, which waits for rank 2, which waits for rank 3: c10d could only name the
  // neighbours. Each rank aborts when it hears of the death, as the trainer does.
  const auto errors = collect_rank_errors(4, [](int rank, const c10::intrusive_ptr<c10d::Store>& store) {
    std::unique_ptr<Communicator> communicator;  // outlives the thread that aborts it
    std::atomic<Communicator*> abort_this{nullptr};
    Liveness liveness(store, {.rank = rank, .world = 4, .interval = milliseconds(20), .timeout = milliseconds(60000)},
                      [&](const DeadRank&) {
                        while (abort_this == nullptr) std::this_thread::yield();
                        abort_this.load()->abort();
                      });
    communicator = std::make_unique<Communicator>(
        store, CommunicatorOptions{.rank = rank, .mesh = {.pp = 4}, .timeout = hours(1), .liveness = &liveness});
    const auto from_next = [](int stage) { return plan::message_group(stage + 1, stage, /*gradients=*/true); };
    communicator->connect({from_next(0), from_next(1), from_next(2)});
    abort_this = communicator.get();
    if (rank == 3) {
      std::this_thread::sleep_for(milliseconds(100));
      Liveness::report_death(*store, 3, "killed by signal 9");
      // Its connections stay open until all others have ended: only the heartbeats can tell them.
      while (!liveness.dead()) std::this_thread::sleep_for(milliseconds(5));
      std::this_thread::sleep_for(milliseconds(300));
      return;
    }
    at::Tensor x = at::empty({4});
    receive(communicator->group(from_next(rank)), x, 1, 0, "gradient");
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(errors[rank]);
    EXPECT_EQ(detail_of(errors[rank]).rank, 3);
    EXPECT_THAT(text_of(errors[rank]),
                AllOf(HasSubstr("rank 3: killed by signal 9"), HasSubstr("[operation receive gradient]"),
                      HasSubstr(fmt::format("[group backward {}>{} {{{},{}}}]", rank + 1, rank, rank, rank + 1))));
  }
  EXPECT_EQ(text_of(errors[3]), "");
}

TEST(ErrorText, IsOneLineWithoutPositionsAndAdvice) {
  // As Gloo and c10 word theirs.
  EXPECT_EQ(
      error_text(std::runtime_error("[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer "
                                    "[127.0.0.1]:1234. This is typically caused by a remote worker hanging.")),
      "Connection closed by peer [127.0.0.1]:1234");
  EXPECT_EQ(error_text(std::runtime_error("first\nsecond")), "first");
  EXPECT_EQ(error_text(std::runtime_error("[127.0.0.1]: no position")), "[127.0.0.1]: no position");
}

TEST(IssueOrder, TheFirstDifferenceIsNamed) {
  const auto errors =
      collect_mesh_errors({.dp = 3},
                          [](int rank, Communicator& communicator) {
                            Group& group = communicator.group(Axis::dp);
                            at::Tensor x = at::ones({2});
                            all_reduce(group, x, ReduceOp::sum, "bucket 0");
                            check_issue_order(group);  // equal so far
                            all_reduce(group, x, ReduceOp::sum, rank == 2 ? "expert bucket 1" : "dense bucket 1");
                            check_issue_order(group);
                          },
                          {.record_issue_order = true});
  for (const auto& error : errors)
    EXPECT_THAT(text_of(error),
                HasSubstr("rank 2: issued 'all_reduce expert bucket 1' as number 0, where rank 0 issued "
                          "'all_reduce dense bucket 1'"));
}

TEST(IssueOrder, AMissingOperationIsNamed) {
  const auto errors = collect_mesh_errors({.dp = 2},
                                          [](int rank, Communicator& communicator) {
                                            Group& group = communicator.group(Axis::dp);
                                            if (rank == 0) group.issue_order->record("all_gather", "extra");
                                            check_issue_order(group);
                                          },
                                          {.record_issue_order = true});
  EXPECT_THAT(text_of(errors[0]),
              HasSubstr("rank 1: issued nothing as number 0, where rank 0 issued 'all_gather extra'"));
}

}  // namespace
}  // namespace trireme::comm
