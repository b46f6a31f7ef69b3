// Rows to the experts' hosts and back, forward and backward, by the definitions of expert_exchange.h: every row carries
// (source rank, token, expert) so that each test reads off where it came from.
#include "parallel/expert_exchange.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
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
          .group = Axis::ep};
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

// The members' nodes, and a pattern for them.
class ExpertExchangeTest : public ::testing::TestWithParam<std::tuple<plan::NodeShape, std::string>> {
 protected:
  int ep() const { return std::get<0>(GetParam()).size(); }
  plan::Pattern pattern() const { return plan::make_pattern(std::get<1>(GetParam()), std::get<0>(GetParam())); }
};

// Nodes of one, two and three ranks, uneven ones, and groups of nodes.
std::vector<std::tuple<plan::NodeShape, std::string>> shapes_and_patterns(bool of_tokens = true) {
  std::vector<std::tuple<plan::NodeShape, std::string>> out;
  for (const plan::NodeShape& shape : {plan::NodeShape({1}), plan::NodeShape({2}), plan::NodeShape({1, 1}),
                                       plan::NodeShape({2, 2}), plan::NodeShape({3, 1}), plan::NodeShape({1, 1, 1, 1}),
                                       plan::NodeShape({3, 3, 2}), plan::NodeShape({2, 2, 2, 2}, 2)})
    for (const std::string& name : plan::pattern_names(shape))
      if (of_tokens || !plan::needs_tokens(plan::make_pattern(name, shape))) out.emplace_back(shape, name);
  return out;
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<plan::NodeShape, std::string>>& test) {
  const auto& [shape, name] = test.param;
  return fmt::format("{}_on_{}{}", name, fmt::join(shape.ranks_of_node(), "_"),
                     shape.num_groups() > 1 ? "_grouped" : "");
}

// Rows that are of no tokens, which patterns of tokens do not take.
class RowExchangeTest : public ExpertExchangeTest {};

TEST_P(RowExchangeTest, IdentityExpertsGiveBackRowsAndGradients) {
  const int ep = this->ep();
  testing::run_mesh({.pp = 1, .dp = ep, .ep = ep}, [&](int rank, comm::Communicator& communicator) {
    ExpertExchange exchanges(communicator.group(Axis::ep), pattern(), num_experts, 1);
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

// T tokens of K slots; expert e returns row * score * (e + 1). Rank 1 of several has no tokens, and the experts of the
// last member no rows. Whole numbers, so that sums are exact in any order.
TEST_P(ExpertExchangeTest, TokensAreWeightedByTheirHostsAndScoresGetTheirGradients) {
  const int ep = this->ep();
  constexpr std::int64_t k = 3, hidden = 4;
  testing::run_mesh({.pp = 1, .dp = ep, .ep = ep}, [&](int rank, comm::Communicator& communicator) {
    ExpertExchange exchanges(communicator.group(Axis::ep), pattern(), num_experts, k);
    const std::int64_t tokens = ep > 1 && rank == 1 ? 0 : 5;
    const std::int64_t used = ep > 1 ? num_experts - num_experts / ep : num_experts;
    at::Tensor experts_TK = at::empty({tokens, k}, at::kLong);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t slot = 0; slot < k; ++slot) experts_TK[t][slot] = (3 * t + rank + slot) % used;
    const at::Tensor x_TD = at::arange(tokens * hidden, at::kDouble).view({tokens, hidden}) + 100.0 * rank;
    const at::Tensor score_TK = at::arange(1, tokens * k + 1, at::kDouble).view({tokens, k});
    const at::Tensor grad_TD = x_TD * 2 + 1;
    const at::Tensor factor_TK = (experts_TK + 1).to(at::kDouble);

    nn::Boundary b;
    b.routing = nn::make_routing(experts_TK, num_experts);
    const at::Tensor token_R = b.routing->order_R.div(k, "floor");
    const auto to_tokens = [&](const at::Tensor& rows) {
      return rows.index_select(0, b.routing->inverse_R).view({tokens, k, hidden}).sum(1);
    };
    b.rows_RD = x_TD.index_select(0, token_R);
    b.scores_R = score_TK.reshape({-1}).index_select(0, b.routing->order_R);
    const nn::Boundary hosts = exchanges.run(exchange(model::Segment::dispatch, Pass::forward), b, true);
    std::vector<double> factors;
    const std::size_t local = num_experts / ep;
    for (std::size_t i = 0; i < hosts.received_counts_PE.size(); ++i)
      factors.insert(factors.end(), static_cast<std::size_t>(hosts.received_counts_PE[i]),
                     static_cast<double>(rank * local + i % local + 1));
    const at::Tensor factor_R = at::tensor(factors, at::kDouble);
    ASSERT_EQ(factor_R.size(0), hosts.rows_RD.size(0));
    if (ep > 1 && rank == ep - 1) EXPECT_EQ(hosts.rows_RD.size(0), 0);
    nn::Boundary results = hosts;
    results.rows_RD = hosts.rows_RD * (hosts.scores_R * factor_R).unsqueeze(1);
    const nn::Boundary back = exchanges.run(exchange(model::Segment::combine, Pass::forward), results, true);
    EXPECT_TRUE(to_tokens(back.rows_RD).equal(x_TD * (score_TK * factor_TK).sum(1, true))) << "rank " << rank;

    // y = sum_k x s_k f_k, so dL/dx = g sum_k s_k f_k and dL/ds_k = f_k <g, x>.
    nn::Boundary gradient;
    gradient.rows_RD = grad_TD.index_select(0, token_R);
    gradient = exchanges.run(exchange(model::Segment::combine, Pass::backward), gradient, true);
    nn::Boundary of_inputs = gradient;
    of_inputs.rows_RD = gradient.rows_RD * (hosts.scores_R * factor_R).unsqueeze(1);
    of_inputs.scores_R = (gradient.rows_RD * hosts.rows_RD).sum(1) * factor_R;
    const nn::Boundary home = exchanges.run(exchange(model::Segment::dispatch, Pass::backward), of_inputs, true);
    EXPECT_TRUE(to_tokens(home.rows_RD).equal(grad_TD * (score_TK * factor_TK).sum(1, true))) << "rank " << rank;
    const at::Tensor of_scores_TK = factor_TK * (grad_TD * x_TD).sum(1, true);
    EXPECT_TRUE(home.scores_R.index_select(0, b.routing->inverse_R).view({tokens, k}).equal(of_scores_TK));
    EXPECT_EQ(exchanges.num_remembered(), 0);
  });
}

TEST_P(ExpertExchangeTest, WithoutABackwardNothingIsRemembered) {
  const int ep = this->ep();
  testing::run_mesh({.pp = 1, .dp = ep, .ep = ep}, [&](int rank, comm::Communicator& communicator) {
    ExpertExchange exchanges(communicator.group(Axis::ep), pattern(), num_experts, 2);
    nn::Boundary in;
    in.routing = nn::make_routing(at::tensor({0, 7, 3, 4}, at::kLong).view({2, 2}), num_experts);
    in.rows_RD = at::ones({4, 3});
    in.scores_R = at::ones({4});
    const nn::Boundary sent = exchanges.run(exchange(model::Segment::dispatch, Pass::forward), in, false);
    EXPECT_EQ(exchanges.num_remembered(), 1);
    exchanges.run(exchange(model::Segment::combine, Pass::forward), sent, false);
    EXPECT_EQ(exchanges.num_remembered(), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, ExpertExchangeTest, ::testing::ValuesIn(shapes_and_patterns()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Shapes, RowExchangeTest, ::testing::ValuesIn(shapes_and_patterns(false)), name_of_case);

TEST(ExpertExchange, ACombineBeforeItsDispatchIsABug) {
  testing::run_mesh({.pp = 1, .dp = 1, .ep = 1}, [&](int rank, comm::Communicator& communicator) {
    ExpertExchange exchanges(communicator.group(Axis::ep), plan::make_pattern("flat", 1), num_experts, 1);
    EXPECT_THROW(exchanges.run(exchange(model::Segment::combine, Pass::forward), boundary_of(rank, 1), true),
                 std::logic_error);
  });
}

}  // namespace
}  // namespace trireme::parallel
