// Groups of every set of axes against those of Megatron-core's RankGenerator: tools/make_rank_goldens.py.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/mesh.h"

namespace trireme::plan {
namespace {

std::uint64_t digest(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325ull;
  for (const unsigned char byte : text) value = (value ^ byte) * 0x100000001b3ull;
  return value;
}

// A line for each set: "tp-cp: 0,1,2,3 4,5,6,7"; sets by size, then in the order of the axes.
std::vector<std::string> spell(const Mesh& mesh, const std::vector<Axis>& axes) {
  std::vector<std::string> out;
  for (int size = 1; size <= static_cast<int>(axes.size()); ++size) {
    std::vector<bool> taken(axes.size());
    std::fill_n(taken.begin(), size, true);
    do {
      Axes set;
      for (std::size_t i = 0; i < axes.size(); ++i)
        if (taken[i]) set = set | axes[i];
      std::string line = name_of(set) + ":";
      for (const auto& group : mesh.groups(set)) line += fmt::format(" {}", fmt::join(group, ","));
      out.push_back(std::move(line));
    } while (std::prev_permutation(taken.begin(), taken.end()));
  }
  return out;
}

TEST(RankGoldens, GroupsAreMegatrons) {
  std::ifstream in(TRIREME_SOURCE_DIR "/tests/golden/rank_groups.txt");
  ASSERT_TRUE(in);
  int meshes = 0, agreeing = 0, spelled = 0;
  std::vector<std::string> lines;  // of the mesh read last
  std::size_t at = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    if (!line.starts_with("mesh ")) {
      ASSERT_LT(at, lines.size());
      if (!lines[at].empty()) { EXPECT_EQ(lines[at], line); }
      ++at, ++spelled;
      continue;
    }
    std::istringstream row(line);
    std::string word, order, expert_order, dense, experts;
    Mesh mesh;
    int agree = 0;
    row >> word >> mesh.tp >> mesh.cp >> mesh.dp >> mesh.pp >> mesh.ep >> mesh.etp >> order >> expert_order >> agree >> dense >> experts;
    mesh.order = order_from_text(order);
    if (expert_order != "-") mesh.expert_order = expert_order_from_text(expert_order);
    EXPECT_EQ(mesh.stages_agree(), agree == 1) << line;
    at = 0;
    lines = spell(mesh, {Axis::tp, Axis::cp, Axis::dp, Axis::pp});
    EXPECT_EQ(fmt::format("{:016x}", digest(fmt::format("{}", fmt::join(lines, "\n")))), dense) << line;
    // Where stages disagree there are no experts' groups: the layout is refused.
    std::vector<std::string> of_experts(15);
    if (agree == 1) {
      of_experts = spell(mesh, {Axis::pp, Axis::ep, Axis::etp, Axis::edp});
      EXPECT_EQ(fmt::format("{:016x}", digest(fmt::format("{}", fmt::join(of_experts, "\n")))), experts) << line;
    }
    lines.insert(lines.end(), of_experts.begin(), of_experts.end());
    ++meshes, agreeing += agree;
  }
  EXPECT_EQ(meshes, 400);
  EXPECT_GE(agreeing, 300);
  EXPECT_EQ(spelled, 40 * 30);
}

}  // namespace
}  // namespace trireme::plan
