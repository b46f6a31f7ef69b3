// Rows to the experts' hosts and back, forward and backward, by the definitions of expert_exchange.h: every row carries
// (source rank, token, expert) so that each test reads off where it came from.
#include "parallel/expert_exchange.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/router.h"
#include "plan/all_to_all/generators.h"
#include "support/rank_threads.h"

namespace trireme::parallel {
namespace {

using plan::Action;
using plan::ActionKind;
using plan::Pass;

constexpr int num_experts = 8;

Action exchange(model::Segment segment, Pass pass) {
  return {.kind = ActionKind::all_to_all,
          .pass = pass,
          .segment = segment,
          .mb = 0,
          .layer = 1,
          .lane = plan::Lane::ep,
          .group = plan::Axis::ep};
}

// Rows of rank r for expert e: (r + e) % 4, and none at all for the experts of the last member.
std::vector<std::int64_t> counts_of(int rank, int ep) {
  std::vector<std::int64_t> counts;
  for (int e = 0; e < num_experts; ++e)
    counts.push_back(ep > 1 && e >= num_experts - num_experts / ep ? 0 : (rank + e) % 4);
  return counts;
}

nn::Boundary boundary_of(int rank, int ep) {
  nn::Routing routing;
  routing.counts_E = counts_of(rank, ep);
  std::vector<at::Tensor> rows{at::empty({0, 3}, at::kDouble)};
  for (int e = 0; e < num_experts; ++e)
    for (std::int64_t i = 0; i < routing.counts_E[e]; ++i)
      rows.push_back(at::tensor({double(rank), double(i), double(e)}, at::kDouble).view({1, 3}));
  nn::Boundary boundary;
  boundary.rows_RD = at::cat(rows);
  boundary.scores_R = boundary.rows_RD.select(1, 0) * 100 + boundary.rows_RD.select(1, 2);
  boundary.routing = std::make_shared<const nn::Routing>(std::move(routing));
  boundary.x_TD = at::ones({2, 3});
  return boundary;
}

// Members, and a pattern for them on nodes of two.
class ExpertExchangeTest : public ::testing::TestWithParam<std::tuple<int, std::string>> {
 protected:
  int ep() const { return std::get<0>(GetParam()); }
  plan::Pattern pattern() const { return plan::make_pattern(std::get<1>(GetParam()), plan::NodeShape::even(ep(), 2)); }
};

TEST_P(ExpertExchangeTest, IdentityExpertsGiveBackRowsAndGradients) {
  const int ep = this->ep();
  testing::run_mesh({.pp = 1, .dp = ep, .ep = ep}, [&](int rank, comm::Communicator& communicator) {
    ExpertExchange exchanges(communicator.group(plan::Axis::ep), pattern(), num_experts);
    const nn::Boundary in = boundary_of(rank, ep);
    const nn::Boundary sent = exchanges.run(exchange(model::Segment::dispatch, Pass::forward), in, true);

    // Received: source-major, then by expert, each in its source's order.
    const int local = num_experts / ep;
    std::vector<at::Tensor> expected{at::empty({0, 3}, at::kDouble)};
    std::vector<std::int64_t> expected_counts;
    for (int source = 0; source < ep; ++source)
      for (int e = rank * local; e < (rank + 1) * local; ++e) {
        const std::int64_t n = counts_of(source, ep)[e];
        expected_counts.push_back(n);
        for (std::int64_t i = 0; i < n; ++i)
          expected.push_back(at::tensor({double(source), double(i), double(e)}, at::kDouble).view({1, 3}));
      }
    EXPECT_EQ(sent.received_counts_PE, expected_counts);
    EXPECT_TRUE(sent.rows_RD.equal(at::cat(expected)));
    EXPECT_TRUE(sent.scores_R.equal(sent.rows_RD.select(1, 0) * 100 + sent.rows_RD.select(1, 2)));
    EXPECT_TRUE(sent.x_TD.is_same(in.x_TD)) << "passes through";

    const nn::Boundary back = exchanges.run(exchange(model::Segment::combine, Pass::forward), sent, true);
    EXPECT_TRUE(back.rows_RD.equal(in.rows_RD));

    // Gradients take the same ways: those of results to the hosts, those of rows and scores home.
    nn::Boundary gradient;
    gradient.rows_RD = in.rows_RD + 0.5;
    nn::Boundary hosts = exchanges.run(exchange(model::Segment::combine, Pass::backward), gradient, true);
    EXPECT_TRUE(hosts.rows_RD.equal(at::cat(expected) + 0.5));
    hosts.scores_R = hosts.rows_RD.select(1, 1);
    const nn::Boundary home = exchanges.run(exchange(model::Segment::dispatch, Pass::backward), hosts, true);
    EXPECT_TRUE(home.rows_RD.equal(in.rows_RD + 0.5));
    EXPECT_TRUE(home.scores_R.equal(in.rows_RD.select(1, 1) + 0.5));
    EXPECT_EQ(exchanges.num_remembered(), 0);
  });
}

TEST_P(ExpertExchangeTest, WithoutABackwardNothingIsRemembered) {
  const int ep = this->ep();
  testing::run_mesh({.pp = 1, .dp = ep, .ep = ep}, [&](int rank, comm::Communicator& communicator) {
    ExpertExchange exchanges(communicator.group(plan::Axis::ep), pattern(), num_experts);
    const nn::Boundary sent =
        exchanges.run(exchange(model::Segment::dispatch, Pass::forward), boundary_of(rank, ep), false);
    EXPECT_EQ(exchanges.num_remembered(), 1);
    exchanges.run(exchange(model::Segment::combine, Pass::forward), sent, false);
    EXPECT_EQ(exchanges.num_remembered(), 0);
  });
}

TEST_P(ExpertExchangeTest, ProbabilitiesOfOneOverKGiveBackTheTokensAndTheirGradient) {
  // Megatron's dispatcher identity: experts that return row * score, scores 1 / k, summed over a token's k slots.
  const int ep = this->ep();
  constexpr std::int64_t tokens = 5, k = 2, hidden = 3;
  testing::run_mesh({.pp = 1, .dp = ep, .ep = ep}, [&](int rank, comm::Communicator& communicator) {
    ExpertExchange exchanges(communicator.group(plan::Axis::ep), pattern(), num_experts);
    at::Tensor experts_TK = at::empty({tokens, k}, at::kLong);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t slot = 0; slot < k; ++slot) experts_TK[t][slot] = (3 * t + rank + slot) % num_experts;
    const at::Tensor x_TD = at::arange(tokens * hidden, at::kDouble).view({tokens, hidden}) + 100.0 * rank;
    const at::Tensor grad_TD = x_TD * 2 + 1;
    nn::Boundary b;
    b.routing = nn::make_routing(experts_TK, num_experts);
    const at::Tensor token_R = b.routing->order_R.div(k, "floor");
    const auto to_tokens = [&](const at::Tensor& rows) {
      return rows.index_select(0, b.routing->inverse_R).view({tokens, k, hidden}).sum(1);
    };
    b.rows_RD = x_TD.index_select(0, token_R);
    b.scores_R = at::full({tokens * k}, 1.0 / k, at::kDouble);
    nn::Boundary at_experts = exchanges.run(exchange(model::Segment::dispatch, Pass::forward), b, true);
    const at::Tensor scores = at_experts.scores_R.unsqueeze(1);
    at_experts.rows_RD = at_experts.rows_RD * scores;
    const nn::Boundary back = exchanges.run(exchange(model::Segment::combine, Pass::forward), at_experts, true);
    EXPECT_TRUE(to_tokens(back.rows_RD).equal(x_TD));

    nn::Boundary gradient;
    gradient.rows_RD = grad_TD.index_select(0, token_R);  // of the sum over slots
    gradient = exchanges.run(exchange(model::Segment::combine, Pass::backward), gradient, true);
    gradient.rows_RD = gradient.rows_RD * scores;
    gradient.scores_R = gradient.rows_RD.select(1, 0);
    gradient = exchanges.run(exchange(model::Segment::dispatch, Pass::backward), gradient, true);
    EXPECT_TRUE(to_tokens(gradient.rows_RD).equal(grad_TD));
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, ExpertExchangeTest,
                         ::testing::Combine(::testing::Values(1, 2, 4, 8),
                                            ::testing::ValuesIn(plan::training_pattern_names())),
                         [](const auto& test) {
                           return std::get<1>(test.param) + std::to_string(std::get<0>(test.param));
                         });

TEST(ExpertExchange, ACombineBeforeItsDispatchIsABug) {
  testing::run_mesh({.pp = 1, .dp = 1, .ep = 1}, [&](int rank, comm::Communicator& communicator) {
    ExpertExchange exchanges(communicator.group(plan::Axis::ep), plan::make_pattern("flat", 1), num_experts);
    EXPECT_THROW(exchanges.run(exchange(model::Segment::combine, Pass::forward), boundary_of(rank, 1), true),
                 std::logic_error);
  });
}

}  // namespace
}  // namespace trireme::parallel
