#include "plan/mesh.h"

#include <gmock/gmock.h>

#include <set>

namespace trireme::plan {
namespace {

using ::testing::ElementsAre;

// rank = pp_index * dp + edp_index * ep + ep_index. For pp 2, dp 4, ep 2: stage 0 is ranks 0..3, its ep groups {0,1}
// and {2,3}; the same experts are on {0,2} and on {1,3}.
TEST(Mesh, GroupsByHand) {
  const Mesh mesh{.pp = 2, .dp = 4, .ep = 2};
  EXPECT_EQ(mesh.world(), 8);
  EXPECT_EQ(mesh.edp(), 2);
  EXPECT_THAT(mesh.groups(Axis::world), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
  EXPECT_THAT(mesh.groups(Axis::pp),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(mesh.groups(Axis::dp), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(mesh.groups(Axis::ep),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(mesh.groups(Axis::edp),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(mesh.groups(Axis::embedding),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(mesh.group(Axis::edp, 6), ElementsAre(4, 6));
}

TEST(Mesh, EmbeddingGroupsLeaveMiddleStagesAlone) {
  const Mesh mesh{.pp = 3, .dp = 2, .ep = 1};
  EXPECT_THAT(mesh.groups(Axis::embedding),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2), ElementsAre(3)));
  EXPECT_THAT((Mesh{.pp = 1, .dp = 2}.groups(Axis::embedding)), ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(Mesh, EveryAxisPartitionsTheRanks) {
  for (int pp : {1, 2, 3})
    for (int dp : {1, 2, 3, 4, 6})
      for (int ep = 1; ep <= dp; ++ep) {
        if (dp % ep != 0) continue;
        const Mesh mesh{.pp = pp, .dp = dp, .ep = ep};
        for (Axis axis : {Axis::world, Axis::pp, Axis::dp, Axis::ep, Axis::edp, Axis::embedding}) {
          std::multiset<int> seen;
          for (const auto& group : mesh.groups(axis)) {
            EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
            for (int rank : group) {
              seen.insert(rank);
              EXPECT_EQ(mesh.group(axis, rank), group);
            }
          }
          EXPECT_EQ(static_cast<int>(seen.size()), mesh.world());
          EXPECT_EQ(static_cast<int>(std::set<int>(seen.begin(), seen.end()).size()), mesh.world());
        }
        for (int rank = 0; rank < mesh.world(); ++rank) {
          EXPECT_EQ(mesh.rank(mesh.pp_index(rank), mesh.dp_index(rank)), rank);
          EXPECT_EQ(mesh.pp_index(rank) * dp + mesh.edp_index(rank) * ep + mesh.ep_index(rank), rank);
        }
      }
}

}  // namespace
}  // namespace trireme::plan
