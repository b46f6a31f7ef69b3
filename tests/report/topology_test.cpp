#include "report/topology.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace trireme::report {
namespace {

using plan::NodeShape;

TEST(Topology, IsATreeOfNodes) {
  EXPECT_EQ(draw_topology(NodeShape({2, 1, 3}), "16 us", "22 us, 117 MB/s"),
            "network: 22 us, 117 MB/s\n"
            "+-- node 0: ranks 0 to 1 (16 us)\n"
            "+-- node 1: rank 2\n"
            "+-- node 2: ranks 3 to 5\n");
  EXPECT_EQ(draw_topology(NodeShape::one_node(4), "16 us", ""), "node 0: ranks 0 to 3 (16 us)\n");
}

TEST(Topology, HasItsGroups) {
  EXPECT_EQ(draw_topology(NodeShape({1, 1, 1}, 2), "", ""),
            "network\n"
            "+-- group 0\n"
            "|   +-- node 0: rank 0\n"
            "|   +-- node 1: rank 1\n"
            "+-- group 1\n"
            "|   +-- node 2: rank 2\n");
}

TEST(Topology, LeavesTheMiddleOfManyNodesOut) {
  const std::string text = draw_topology(NodeShape::even(200, 2), "", "");
  EXPECT_NE(text.find("|   ... 84 more\n+-- node 99: ranks 198 to 199\n"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 15 + 1 + 1);  // the network, 15 nodes, the gap, the last
}

}  // namespace
}  // namespace trireme::report
