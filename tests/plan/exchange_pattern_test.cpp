#include "plan/exchange_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trireme::plan {
namespace {

using ::testing::Contains;
using ::testing::Not;

TEST(Mesh, KnowsTheHostsOfItsRanks) {
  const Mesh mesh{.dp = 6, .ranks_of_host = {3, 1, 2}};
  std::vector<int> hosts;
  for (int rank = 0; rank < 6; ++rank) hosts.push_back(mesh.host(rank));
  EXPECT_EQ(hosts, (std::vector{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ((Mesh{.dp = 6}).host(5), 0);
  EXPECT_THROW((Mesh{.dp = 6, .ranks_of_host = {3}}).host(4), std::logic_error);
  EXPECT_EQ(even_hosts(5, 2), (std::vector{2, 2, 1}));
  EXPECT_TRUE(even_hosts(4, 4).empty());
  EXPECT_TRUE(even_hosts(4, 0).empty());
}

TEST(EpShape, IsThePartOfTheHostsThatTheGroupIsOn) {
  // Ranks 0 to 3 are one group, 4 to 7 the other, on hosts of 3, 3 and 2.
  const Mesh mesh{.dp = 8, .ep = 4, .ranks_of_host = {3, 3, 2}};
  EXPECT_EQ(node_shape(mesh, Axis::ep, 1), NodeShape({3, 1}));
  EXPECT_EQ(node_shape(mesh, Axis::ep, 7), NodeShape({2, 2}));
  EXPECT_EQ(ep_shapes(mesh), (std::vector{NodeShape({3, 1}), NodeShape({2, 2})}));
  EXPECT_EQ(node_shape({.dp = 4, .ep = 4}, Axis::ep, 0), NodeShape({4}));
}

TEST(EpShape, HasGroupsOfHostsWhereItBeginsWithOne) {
  const std::vector<int> eight(8, 1);
  EXPECT_EQ(node_shape({.dp = 8, .ep = 4, .ranks_of_host = eight, .hosts_per_group = 2}, Axis::ep, 4), NodeShape({1, 1, 1, 1}, 2));
  // The second group's first host is the third of a switch of three.
  EXPECT_EQ(node_shape({.dp = 8, .ep = 4, .ranks_of_host = eight, .hosts_per_group = 3}, Axis::ep, 4), NodeShape({1, 1, 1, 1}));
}

TEST(NodeShape, OfAGroupThatLeavesOutHosts) {
  // Ranks 0, 2, 4 and 6 on hosts of 3, 3 and 2.
  EXPECT_EQ(node_shape({.dp = 8, .ep = 2, .ranks_of_host = {3, 3, 2}}, Axis::edp, 0), NodeShape({2, 1, 1}));
  // Every fourth rank on eight hosts of two: each other host, two of them behind each switch of four.
  const Mesh mesh{.dp = 16, .ep = 4, .ranks_of_host = std::vector<int>(8, 2), .hosts_per_group = 4};
  EXPECT_EQ(node_shape(mesh, Axis::edp, 0), NodeShape({1, 1, 1, 1}, 2));
  EXPECT_EQ(node_shape(mesh, Axis::edp, 2), NodeShape({1, 1, 1, 1}, 2));
  EXPECT_EQ(node_shape(mesh, world_group, 0), NodeShape(std::vector<int>(8, 2), 4));
}

TEST(FittingPatterns, LeaveOutWhatOneOfTheGroupsCannotRun) {
  const std::vector<int> four(4, 1);
  EXPECT_THAT(fitting_patterns({.dp = 4, .ep = 4, .ranks_of_host = four, .hosts_per_group = 2}), Contains("halo3"));
  EXPECT_THAT(fitting_patterns({.dp = 4, .ep = 4, .ranks_of_host = four}), Not(Contains("halo3")));
  EXPECT_THAT(fitting_patterns({.dp = 4, .ep = 4, .ranks_of_host = four, .hosts_per_group = 3}), Not(Contains("halo3")));
}

TEST(ExchangePattern, SaysWhatDoesNotFitBeforeARun) {
  RunSpec run;
  run.model.num_layers = 1;
  run.model.moe.num_experts = 4;
  run.layout.ep = 4;
  run.layout.all_to_all = "halo3";
  const Mesh mesh{.dp = 4, .ep = 4, .ranks_of_host = {2, 2}};
  try {
    make_training_plan(run, mesh);
    ADD_FAILURE() << "halo3 without groups of nodes";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().key, "layout.all_to_all");
    EXPECT_EQ(error.detail().value, "halo3 on 2 nodes of 2");
    EXPECT_EQ(error.detail().allowed, "groups of equally many nodes, and more than one of them; else halo");
  }
  run.layout.all_to_all = "halo";
  const Plan plan = make_training_plan(run, mesh);
  EXPECT_EQ(exchange_pattern(plan, 0).phases.size(), 3u);
}

}  // namespace
}  // namespace trireme::plan
