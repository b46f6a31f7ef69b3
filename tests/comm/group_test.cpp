#include "comm/group.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "support/rank_threads.h"

namespace trireme::comm {
namespace {

using testing::run_mesh;

class GroupOfSize : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GroupOfSize, ::testing::Values(1, 2, 3, 4, 5), ::testing::PrintToStringParamName());

TEST_P(GroupOfSize, AllReduceSumsAndTakesExtremes) {
  const int size = GetParam();
  run_mesh({.dp = size}, [&](int rank, Communicator& communicator) {
    Group& group = communicator.group(Axis::dp);
    for (const auto dtype : {at::kFloat, at::kDouble, at::kLong, at::kBFloat16}) {
      at::Tensor x = at::full({3, 2}, rank + 1, dtype);
      all_reduce(group, x, ReduceOp::sum, "test");
      // 1 + ... + n = n (n + 1) / 2, exact in every one of these types for n <= 5.
      EXPECT_TRUE(at::equal(x, at::full({3, 2}, size * (size + 1) / 2, dtype))) << x;
    }
    at::Tensor x = at::full({2}, rank + 1, at::kFloat);
    all_reduce(group, x, ReduceOp::max, "test");
    EXPECT_EQ(x[0].item<float>(), static_cast<float>(size));
    x.fill_(rank + 1);
    all_reduce(group, x, ReduceOp::min, "test");
    EXPECT_EQ(x[1].item<float>(), 1.0f);
    at::Tensor nothing = at::empty({0, 4});
    all_reduce(group, nothing, ReduceOp::sum, "test");
  });
}

TEST_P(GroupOfSize, BroadcastFromEveryRootAndAllGather) {
  const int size = GetParam();
  run_mesh({.dp = size}, [&](int rank, Communicator& communicator) {
    Group& group = communicator.group(Axis::dp);
    for (int root = 0; root < size; ++root) {
      at::Tensor x = at::full({4}, 10 * rank, at::kFloat);
      broadcast(group, x, root, "test");
      EXPECT_EQ(x[3].item<float>(), 10.0f * static_cast<float>(root));
    }
    const auto all = all_gather(group, at::full({2}, rank, at::kLong), "test");
    EXPECT_EQ(all.size(), static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)][1].item<std::int64_t>(), i);
    barrier(group, "test");
  });
}

// Member s has c(s, d) = (2 s + 3 d) mod 4 rows for member d: zeros, uneven, and not symmetric. Row r of block (s, d)
// holds 100 s + 10 d + r in all its elements, so that a received row says where it came from.
std::int64_t count(int s, int d) {
  return (2 * s + 3 * d) % 4;
}

TEST_P(GroupOfSize, AllToAllRowsMovesEveryBlock) {
  const int size = GetParam();
  run_mesh({.dp = size, .ep = size}, [&](int rank, Communicator& communicator) {
    Group& group = communicator.group(Axis::ep);
    std::vector<std::int64_t> send_counts;
    std::vector<float> values;
    for (int d = 0; d < size; ++d) {
      send_counts.push_back(count(rank, d));
      for (int r = 0; r < count(rank, d); ++r) values.push_back(static_cast<float>(100 * rank + 10 * d + r));
    }
    const auto receive_counts = exchange_counts(group, send_counts, "counts");
    for (int s = 0; s < size; ++s) EXPECT_EQ(receive_counts[static_cast<std::size_t>(s)], count(s, rank));

    const auto n = static_cast<std::int64_t>(values.size());
    const at::Tensor rows = at::tensor(values).reshape({n, 1, 1}).expand({n, 2, 3}).contiguous();
    const at::Tensor received = all_to_all_rows(group, rows, send_counts, receive_counts, "dispatch");
    std::vector<float> expected;
    for (int s = 0; s < size; ++s)
      for (int r = 0; r < count(s, rank); ++r) expected.push_back(static_cast<float>(100 * s + 10 * rank + r));
    const auto m = static_cast<std::int64_t>(expected.size());
    EXPECT_EQ(received.sizes(), (std::vector<std::int64_t>{m, 2, 3}));
    EXPECT_TRUE(at::equal(received, at::tensor(expected).reshape({m, 1, 1}).expand({m, 2, 3})));

    // And back: what came from s returns to s.
    EXPECT_TRUE(at::equal(all_to_all_rows(group, received, receive_counts, send_counts, "combine"), rows));
  });
}

TEST_P(GroupOfSize, AllToAllRowsWithNothingAtAll) {
  const int size = GetParam();
  run_mesh({.dp = size, .ep = size}, [&](int rank, Communicator& communicator) {
    Group& group = communicator.group(Axis::ep);
    const std::vector<std::int64_t> none(static_cast<std::size_t>(size), 0);
    const at::Tensor received = all_to_all_rows(group, at::empty({0, 5}), none, none, "dispatch");
    EXPECT_EQ(received.sizes(), (std::vector<std::int64_t>{0, 5}));
  });
}

TEST(Group, OneRankGetsEverythingOthersNothing) {
  run_mesh({.dp = 3, .ep = 3}, [&](int rank, Communicator& communicator) {
    // Everybody sends its rank + 1 rows to member 1: the shape of a router that has collapsed.
    const std::vector<std::int64_t> send_counts{0, rank + 1, 0};
    std::vector<std::int64_t> receive_counts{0, 0, 0};
    if (rank == 1) receive_counts = {1, 2, 3};
    const at::Tensor rows = at::full({rank + 1, 2}, rank, at::kFloat);
    const at::Tensor got = all_to_all_rows(communicator.group(Axis::ep), rows, send_counts, receive_counts, "dispatch");
    EXPECT_EQ(got.size(0), rank == 1 ? 6 : 0);
    if (rank == 1) {
      EXPECT_EQ(got.select(1, 0).sum().item<float>(), 0 * 1 + 1 * 2 + 2 * 3);
    }
  });
}

TEST(Group, ExchangeOfSeveralCountsAMember) {
  run_mesh({.dp = 2, .ep = 2}, [&](int rank, Communicator& communicator) {
    // Rank r tells member d the pair (10 r + d, 100).
    const std::vector<std::int64_t> counts{10 * rank, 100, 10 * rank + 1, 100};
    const auto got = exchange_counts(communicator.group(Axis::ep), counts, "counts");
    EXPECT_EQ(got, (std::vector<std::int64_t>{rank, 100, 10 + rank, 100}));
  });
}

TEST(Group, MessagesWithOneTagArriveInOrder) {
  run_mesh({.pp = 2}, [&](int rank, Communicator& communicator) {
    const plan::GroupKind kind = plan::message_group(0, 1, /*gradients=*/false);
    communicator.connect({kind});
    Group& group = communicator.group(kind);
    for (int i = 0; i < 5; ++i) {
      at::Tensor x = at::full({3}, rank == 0 ? i : -1, at::kFloat);
      if (rank == 0) send(group, x, 1, 7, "activation");
      if (rank == 1) {
        receive(group, x, 0, 7, "activation");
        EXPECT_EQ(x[0].item<float>(), static_cast<float>(i));
      }
    }
  });
}

TEST(Group, BothPipelineDirectionsAtOnce) {
  // Stage 0 sends activations while stage 1 sends gradients of 4 MiB, more than any socket buffer holds: on one queue
  // with blocking sends this would stand still.
  run_mesh({.pp = 2}, [&](int rank, Communicator& communicator) {
    const plan::GroupKind forward = plan::message_group(0, 1, false), backward = plan::message_group(1, 0, true);
    communicator.connect({forward, backward});
    communicator.connect({backward});  // is there: nothing to do
    Group& out = communicator.group(rank == 0 ? forward : backward);
    Group& in = communicator.group(rank == 0 ? backward : forward);
    std::thread sender([&] {
      for (int i = 0; i < 3; ++i) send(out, at::full({1 << 20}, 10 * rank + i, at::kFloat), 1 - rank, 0, "boundary");
    });
    for (int i = 0; i < 3; ++i) {
      at::Tensor x = at::empty({1 << 20});
      receive(in, x, 1 - rank, 0, "boundary");
      EXPECT_EQ(x[12345].item<float>(), static_cast<float>(10 * (1 - rank) + i));
    }
    sender.join();
  });
}

TEST(Communicator, GroupsFollowTheMesh) {
  // rank = pp_index * 4 + edp_index * 2 + ep_index (plan/mesh.h). Each group sums 2^rank over its members, which names
  // them all.
  const plan::Mesh mesh{.pp = 2, .dp = 4, .ep = 2};
  run_mesh(mesh, [&](int rank, Communicator& communicator) {
    const plan::GroupKind back = plan::message_group(1, 0, true);
    communicator.connect({back});
    for (const plan::GroupKind& kind :
         std::vector<plan::GroupKind>{back, plan::embedding_group, Axis::edp, Axis::ep, Axis::dp, plan::world_group}) {
      Group& group = communicator.group(kind);
      at::Tensor x = at::full({1}, 1 << rank, at::kLong);
      all_reduce(group, x, ReduceOp::sum, "membership");
      std::int64_t expected = 0;
      for (const int member : mesh.group(kind, rank)) expected += 1 << member;
      EXPECT_EQ(x.item<std::int64_t>(), expected) << plan::name_of(kind) << " of rank " << rank;
      EXPECT_EQ(group.members()[static_cast<std::size_t>(group.rank())], rank);
    }
    if (rank == 6) {
      EXPECT_EQ(communicator.group(Axis::ep).describe(), "ep {6,7}");
      EXPECT_EQ(communicator.group(Axis::edp).describe(), "edp {4,6}");
      EXPECT_EQ(communicator.group(back).describe(), "backward 1>0 {2,6}");
    }
  });
}

TEST(Communicator, OneRankHasGroupsWithoutABackend) {
  run_mesh({}, [](int, Communicator& communicator) {
    Group& group = communicator.group(plan::world_group);
    EXPECT_EQ(group.size(), 1);
    EXPECT_EQ(group.backend(), nullptr);
    communicator.abort();
  });
}

TEST(Group, WrongUseIsABug) {
  run_mesh({.dp = 2, .ep = 2}, [](int rank, Communicator& communicator) {
    Group& group = communicator.group(Axis::ep);
    at::Tensor x = at::zeros({4, 2});
    const std::vector<std::int64_t> three{1, 2}, one{1};
    EXPECT_THROW(all_to_all_rows(group, x, three, three, "dispatch"), std::logic_error);  // 3 of 4 rows
    EXPECT_THROW(all_to_all_rows(group, x, one, three, "dispatch"), std::logic_error);
    EXPECT_THROW(send(group, x, rank, 0, "to itself"), std::logic_error);
    at::Tensor turned = x.t();
    EXPECT_THROW(all_reduce(group, turned, ReduceOp::sum, "strided"), std::logic_error);
  });
}

}  // namespace
}  // namespace trireme::comm
