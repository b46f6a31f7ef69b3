#include "comm/token_exchange.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "plan/all_to_all/generators.h"
#include "support/rank_threads.h"

namespace trireme::comm {
namespace {

using plan::NodeShape;
using testing::run_mesh;

constexpr int top_k = 3, per_member = 2;

// Whole numbers, so that sums are exact in any order. A member in three has no tokens; one slot in seven is for nobody.
std::int64_t num_tokens(int member) {
  return member % 3 == 1 ? 0 : 4 + member;
}
at::Tensor experts_of(int member, int size) {
  const auto key = stream_key(7, "experts");
  at::Tensor experts_TK = at::empty({num_tokens(member), top_k}, at::kLong);
  for (std::int64_t i = 0; i < experts_TK.numel(); ++i) {
    const auto bits = random_bits(key, static_cast<std::uint64_t>(1000 * member + i));
    experts_TK.view(-1)[i] =
        bits % 7 == 0 ? -1 : static_cast<std::int64_t>(bits / 7 % static_cast<std::uint64_t>(size * per_member));
  }
  return experts_TK;
}
at::Tensor tokens_of(int member) {
  return (at::arange(num_tokens(member) * 2, at::kFloat) + 100.0F * static_cast<float>(member)).reshape({-1, 2});
}
// What an expert makes of a row: depends on both.
float result(std::int64_t expert, float x) {
  return x * static_cast<float>(expert + 1);
}
float number(int member, std::int64_t token, std::int64_t slot) {
  return static_cast<float>(1000 * member + 10 * token + slot);
}

void check(const plan::Pattern& pattern) {
  const int size = pattern.size;
  run_mesh({.dp = size, .ep = size}, [&](int me, Communicator& communicator) {
    TokenExchange exchange(communicator.group(Axis::ep), pattern, size * per_member);
    const at::Tensor experts_TK = experts_of(me, size);
    const TokenRoute route = exchange.route(experts_TK, "route");

    // By definition: every member's slots for this one's experts, by source, expert, token.
    std::vector<float> rows, numbers;
    std::vector<std::int64_t> counts_PE, expert_of_row;
    for (int s = 0; s < size; ++s)
      for (int e = me * per_member; e < (me + 1) * per_member; ++e) {
        std::int64_t n = 0;
        const at::Tensor theirs_TK = experts_of(s, size), x_TD = tokens_of(s);
        for (std::int64_t t = 0; t < theirs_TK.size(0); ++t)
          for (int k = 0; k < top_k; ++k) {
            if (theirs_TK[t][k].item<std::int64_t>() != e) continue;
            rows.push_back(x_TD[t][0].item<float>());
            rows.push_back(x_TD[t][1].item<float>());
            numbers.push_back(number(s, t, k));
            expert_of_row.push_back(e);
            ++n;
          }
        counts_PE.push_back(n);
      }
    EXPECT_EQ(route.counts_PE, counts_PE);
    const at::Tensor arrived_RD = exchange.dispatch(route, tokens_of(me), "dispatch");
    EXPECT_TRUE(at::equal(arrived_RD, at::tensor(rows).reshape({-1, 2}))) << pattern.name << ", rank " << me;

    at::Tensor results_RD = at::empty_like(arrived_RD);
    for (std::int64_t r = 0; r < results_RD.size(0); ++r)
      for (int d = 0; d < 2; ++d)
        results_RD[r][d] = result(expert_of_row[static_cast<std::size_t>(r)], arrived_RD[r][d].item<float>());
    at::Tensor expected_TD = at::zeros_like(tokens_of(me)), numbers_TK = at::zeros({num_tokens(me), top_k});
    for (std::int64_t t = 0; t < num_tokens(me); ++t)
      for (int k = 0; k < top_k; ++k) {
        const auto e = experts_TK[t][k].item<std::int64_t>();
        numbers_TK[t][k] = number(me, t, k);
        if (e < 0) continue;
        for (int d = 0; d < 2; ++d) expected_TD[t][d] += result(e, tokens_of(me)[t][d].item<float>());
      }
    EXPECT_TRUE(at::equal(exchange.combine(route, results_RD, "combine"), expected_TD))
        << pattern.name << ", rank " << me;

    const at::Tensor there_R = exchange.dispatch_slots(route, numbers_TK, "numbers");
    EXPECT_TRUE(at::equal(there_R, at::tensor(numbers))) << pattern.name << ", rank " << me;
    const at::Tensor back_TK = exchange.combine_slots(route, there_R, "numbers back");
    EXPECT_TRUE(at::equal(back_TK, numbers_TK * (experts_TK >= 0))) << pattern.name << ", rank " << me;
  });
}

TEST(TokenExchange, EveryPatternMovesTokensAndSumsTheirResults) {
  std::vector<NodeShape> shapes{NodeShape({3, 1, 2}), NodeShape::even(8, 2, 2)};
  for (const int size : {1, 2, 5})
    for (const int per_node : {1, 2, 3}) shapes.push_back(NodeShape::even(size, per_node));
  for (const NodeShape& shape : shapes)
    for (const std::string& name : plan::pattern_names(shape)) {
      SCOPED_TRACE(name + " on " + plan::to_text(shape));
      check(plan::make_pattern(name, shape, {.in_flight = 2}));
    }
}

TEST(TokenExchange, SumsInAStatedOrderAndInFloat32) {
  // Two nodes of two members; one token of member 0 with a slot on each. In bfloat16, 256 + 1 is 256: member 2 and 3's
  // sum, 1 + 1, must be made on their node, where it is exact, before 256 is added.
  const plan::Pattern dedup = plan::make_pattern("dedup", NodeShape::even(4, 2));
  run_mesh({.dp = 4, .ep = 4}, [&](int me, Communicator& communicator) {
    TokenExchange exchange(communicator.group(Axis::ep), dedup, 4);
    const at::Tensor experts_TK = me == 0 ? at::arange(4, at::kLong).reshape({1, 4}) : at::empty({0, 4}, at::kLong);
    const TokenRoute route = exchange.route(experts_TK, "route");
    EXPECT_EQ(route.num_arrived, 1);
    const at::Tensor value = at::full({1, 1}, me == 0 ? 256.0 : me == 1 ? 0.0 : 1.0, at::kBFloat16);
    const at::Tensor sum = exchange.combine(route, value, "combine");
    if (me == 0) {
      EXPECT_EQ(sum.item<float>(), 258.0F);
    } else {
      EXPECT_EQ(sum.size(0), 0);
    }
  });
}

}  // namespace
}  // namespace trireme::comm
