#include "plan/mesh.h"

#include <gmock/gmock.h>

#include <set>

#include <nlohmann/json.hpp>

#include "plan/layout_spec.h"

namespace trireme::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// rank = pp_index * dp + edp_index * ep + ep_index. For pp 2, dp 4, ep 2: stage 0 is ranks 0..3, its ep groups {0,1}
// and {2,3}; the same experts are on {0,2} and on {1,3}.
TEST(Mesh, GroupsByHand) {
  const Mesh mesh{.pp = 2, .dp = 4, .ep = 2};
  EXPECT_EQ(mesh.world(), 8);
  EXPECT_EQ(mesh.edp(), 2);
  EXPECT_THAT(mesh.groups(world_group), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
  EXPECT_THAT(mesh.groups(Axis::pp),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(mesh.groups(Axis::dp), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(mesh.groups(Axis::ep),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(mesh.groups(Axis::edp),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(mesh.groups(embedding_group),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(mesh.group(Axis::edp, 6), ElementsAre(4, 6));
}

// Stages inside data parallelism: rank = tp_index + 2 * (pp_index + 2 * dp_index).
TEST(Mesh, StagesLieWhereTheOrderPutsThem) {
  const Mesh mesh{.pp = 2, .dp = 2, .ep = 2, .tp = 2, .order = order_from_text("tp-cp-ep-pp-dp")};
  EXPECT_EQ(mesh.world(), 8);
  EXPECT_THAT(mesh.groups(Axis::tp), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(mesh.groups(Axis::pp), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(mesh.groups(Axis::dp), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(mesh.groups(Axis::tp | Axis::dp), ElementsAre(ElementsAre(0, 1, 4, 5), ElementsAre(2, 3, 6, 7)));
  EXPECT_THAT(mesh.groups(embedding_group), mesh.groups(Axis::pp));
  // Experts: etp 1, ep 2 in the place of tp, then pp, then edp 2.
  EXPECT_EQ(mesh.groups(Axis::ep), mesh.groups(Axis::tp));
  EXPECT_EQ(mesh.groups(Axis::edp), mesh.groups(Axis::dp));
  EXPECT_TRUE(mesh.stages_agree());
  std::vector<int> of_stage_1;
  for (int place = 0; place < mesh.stage_ranks(); ++place) of_stage_1.push_back(mesh.rank(1, place));
  EXPECT_THAT(of_stage_1, ElementsAre(2, 3, 6, 7));
  EXPECT_EQ(mesh.pp_index(6), 1);
  EXPECT_EQ(mesh.dp_index(6), 1);
}

TEST(Mesh, NamesItsDegrees) {
  const Mesh plain{.pp = 2, .dp = 4, .ep = 2}, all{.pp = 2, .dp = 4, .ep = 2, .cp = 3, .tp = 5, .etp = 6};
  EXPECT_EQ(dense_degrees(plain), "pp 2 x dp 4");
  EXPECT_EQ(expert_degrees(plain), "ep 2");
  EXPECT_EQ(dense_degrees(all), "pp 2 x dp 4 x cp 3 x tp 5");
  EXPECT_EQ(expert_degrees(all), "ep 2 x etp 6");
}

TEST(Mesh, StagesOfExpertsMustBeThoseOfDenseLayers) {
  // Before pp lie tp x cp = 2 dense ranks, and etp x ep = 4 of the experts'.
  Mesh mesh{.pp = 2, .dp = 4, .ep = 4, .tp = 2, .order = order_from_text("tp-cp-ep-pp-dp")};
  EXPECT_FALSE(mesh.stages_agree());
  EXPECT_EQ(why_stages_differ(mesh), "with tp-cp-ep-pp-dp 2 ranks of dense layers and 4 of experts come before pp, which must be as many");
  mesh.expert_order = expert_order_from_text("etp-pp-ep-edp");
  EXPECT_THAT(why_stages_differ(mesh), HasSubstr("with tp-cp-ep-pp-dp and etp-pp-ep-edp 2 ranks of dense layers and 1 of experts"));
  mesh.expert_order = expert_order_from_text("edp-pp-ep-etp");  // edp = 2
  EXPECT_TRUE(mesh.stages_agree());
  mesh.pp = 1, mesh.expert_order = {};
  EXPECT_TRUE(mesh.stages_agree());
  EXPECT_TRUE((Mesh{.pp = 2, .dp = 6, .ep = 6, .tp = 2, .etp = 2}.stages_agree()));
}

TEST(Mesh, EmbeddingGroupsLeaveMiddleStagesAlone) {
  const Mesh mesh{.pp = 3, .dp = 2, .ep = 1};
  EXPECT_THAT(mesh.groups(embedding_group),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2), ElementsAre(3)));
  EXPECT_THAT((Mesh{.pp = 1, .dp = 2}.groups(embedding_group)), ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(Mesh, OneRankIsAloneInEveryGroup) {
  for (const GroupKind& kind : {world_group, embedding_group, GroupKind(Axis::ep), GroupKind(Axis::cp | Axis::dp)})
    EXPECT_THAT(Mesh{}.groups(kind), ElementsAre(ElementsAre(0))) << name_of(kind);
}

TEST(Mesh, EveryKindOfGroupPartitionsTheRanks) {
  const std::vector<GroupKind> kinds{world_group, embedding_group, Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::ep, Axis::etp,
                                     Axis::edp, Axis::dp | Axis::cp, Axis::tp | Axis::pp, Axis::tp | Axis::dp,
                                     Axis::ep | Axis::etp, Axis::ep | Axis::edp, Axis::etp | Axis::edp | Axis::pp};
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "dp-tp-pp-ep-cp"})
    for (const int pp : {1, 2, 3})
      for (const int dp : {1, 3, 4})
        for (const int cp : {1, 2})
          for (const int tp : {1, 3})
            for (const int ep : {1, 2, 3, 12}) {
              const Mesh mesh{.pp = pp, .dp = dp, .ep = ep, .cp = cp, .tp = tp, .order = order_from_text(order)};
              if (mesh.stage_ranks() % ep != 0 || !mesh.stages_agree()) continue;
              for (const GroupKind& kind : kinds) {
                std::multiset<int> seen;
                int last = -1;
                for (const auto& group : mesh.groups(kind)) {
                  EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
                  EXPECT_GT(group.front(), last);  // groups in the order of their first members
                  last = group.front();
                  for (const int rank : group) EXPECT_EQ(mesh.group(kind, rank), group);
                  seen.insert(group.begin(), group.end());
                }
                EXPECT_EQ(static_cast<int>(seen.size()), mesh.world());
                EXPECT_EQ(static_cast<int>(std::set<int>(seen.begin(), seen.end()).size()), mesh.world());
              }
              for (int stage = 0; stage < pp; ++stage)
                for (int place = 0; place < mesh.stage_ranks(); ++place) EXPECT_EQ(mesh.pp_index(mesh.rank(stage, place)), stage);
            }
}

TEST(Mesh, WritesWhatDiffersFromItsDefaults) {
  const Mesh plain{.pp = 2, .dp = 4, .ep = 2};
  EXPECT_EQ(nlohmann::json(plain).dump(), R"({"dp":4,"ep":2,"pp":2})");
  const Mesh all{.pp = 2, .dp = 4, .ep = 2, .cp = 2, .tp = 3, .etp = 3, .order = order_from_text("tp-cp-ep-pp-dp"),
                 .expert_order = expert_order_from_text("ep-etp-edp-pp"), .ranks_of_host = {24, 24}, .hosts_per_group = 2};
  EXPECT_EQ(nlohmann::json(all).get<Mesh>(), all);
  EXPECT_EQ(nlohmann::json(all)["order"], "tp-cp-ep-pp-dp");
  EXPECT_THROW(nlohmann::json::parse(R"({"pp":1,"dp":1,"ep":1,"order":"tp-pp"})").get<Mesh>(), nlohmann::json::exception);
}

TEST(Mesh, OfALayout) {
  LayoutSpec l;
  l.pp = 2, l.ep = 4, l.tp = 2, l.etp = 2;
  EXPECT_EQ(mesh_of(l), (Mesh{.pp = 2, .dp = 1, .ep = 4, .tp = 2, .etp = 2}));  // dp follows from the ranks: at least 1
}

TEST(AxisOrder, ReadsPermutationsOnly) {
  EXPECT_EQ(to_text(order_from_text("pp-dp-ep-cp-tp")), "pp-dp-ep-cp-tp");
  EXPECT_EQ(order_from_text("tp-cp-ep-dp-pp"), default_order);
  EXPECT_EQ(to_text(expert_order_of(order_from_text("tp-cp-ep-pp-dp"))), "etp-ep-pp-edp");
  EXPECT_TRUE(expert_order_from_text("").empty());
  const auto says = [](auto read, const std::string& text) {
    try {
      read(text);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(says(order_from_text, "tp-cp-dp-pp"), "\"tp-cp-dp-pp\" leaves out some of tp-cp-dp-pp-ep");
  EXPECT_EQ(says(order_from_text, "tp-cp-ep-dp-tp"), "\"tp-cp-ep-dp-tp\" names tp twice");
  EXPECT_EQ(says(order_from_text, "tp-cp-ep-dp-pp-edp"), "edp is none of tp-cp-dp-pp-ep");
  EXPECT_EQ(says(order_from_text, ""), "no axis is called \"\"");
  EXPECT_EQ(says(order_from_text, "tp,cp"), "no axis is called \"tp,cp\"");
  EXPECT_EQ(says(expert_order_from_text, "tp-ep-dp-pp"), "tp is none of pp-ep-etp-edp");
}

TEST(GroupKind, NamesAreThoseOfPlanFiles) {
  for (const char* name : {"world", "embedding", "pp", "dp", "ep", "edp", "cp-dp", "tp-cp"})
    EXPECT_EQ(nlohmann::json(nlohmann::json(name).get<GroupKind>()), name);
  EXPECT_EQ(nlohmann::json("dp-cp").get<GroupKind>(), GroupKind(Axis::cp | Axis::dp));
  EXPECT_THROW(nlohmann::json("dq").get<GroupKind>(), nlohmann::json::exception);
}

// Every place against the listed members: how many of the group's ranks lie in the block of ranks that begins with its first.
TEST(GroupPlace, CountsTheMembersThatTheMeshLists) {
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "tp-pp-cp-ep-dp"}) {
    const Mesh mesh{.pp = 2, .dp = 4, .ep = 2, .cp = 2, .tp = 2, .etp = 2, .order = order_from_text(order)};
    ASSERT_TRUE(mesh.stages_agree()) << order;
    for (const Axes axes : {Axes(Axis::dp), Axis::dp | Axis::cp, Axis::tp | Axis::dp, Axis::tp | Axis::pp, dense_axes, Axes(Axis::ep),
                            Axis::etp | Axis::edp, Axis::ep | Axis::edp, expert_axes}) {
      const GroupPlace place = mesh.strides().place(axes);
      const auto group = mesh.group(axes, 0);
      EXPECT_EQ(place.size, group.size());
      for (const int block : {1, 2, 4, 8, 16, 32}) {
        const auto inside = std::count_if(group.begin(), group.end(), [&](int r) { return r < block; });
        EXPECT_EQ(place.members_within(block), inside) << order << " " << name_of(axes) << " in " << block;
      }
    }
  }
}

TEST(GroupPlace, PartsOfAGroup) {
  // {0,1, 8,9, 16,17, 24,25}: four runs of two.
  const GroupPlace all{8, 1, 4, 8};
  const auto is = [](const GroupPlace& g, double size, double stride, double runs, double run_stride) {
    EXPECT_EQ(g.size, size);
    EXPECT_EQ(g.stride, stride);
    EXPECT_EQ(g.runs, runs);
    if (runs > 1) { EXPECT_EQ(g.run_stride, run_stride); }
  };
  is(all.first(2), 2, 1, 1, 0);    // 0, 1
  is(all.first(4), 4, 1, 2, 8);    // 0, 1, 8, 9
  is(all.first(16), 8, 1, 4, 8);   // no more than there are
  is(all.every(2), 4, 8, 1, 0);    // 0, 8, 16, 24
  is(all.every(4), 2, 16, 1, 0);   // 0, 16
  is(all.every(8), 1, 1, 1, 0);
  const GroupPlace wide{8, 2, 2, 32};  // {0,2,4,6, 32,34,36,38}
  is(wide.every(2), 4, 4, 2, 32);      // 0, 4, 32, 36
  is(GroupPlace{8, 2}.every(2), 4, 4, 1, 0);
}

}  // namespace
}  // namespace trireme::plan
