#include "plan/layout_keys.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "plan/run_spec.h"

namespace trireme::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// For every key a value other than its default, as TOML, and as a cell of a table.
struct Other {
  const char* toml;
  const char* cell;
};
const std::map<std::string, Other> others = {
    {"pp", {"2", "2"}},
    {"dp", {"4", "4"}},
    {"ep", {"2", "2"}},
    {"schedule", {"\"dualpipe_v\"", "dualpipe_v"}},
    {"schedule_file", {"\"grid.txt\"", "grid.txt"}},
    {"stage_layers", {"[3, 1]", "3 1"}},
    {"all_to_all", {"\"halo\"", "halo"}},
    {"bucket_MiB", {"2.5", "2.5"}},
    {"tp", {"8", "8"}},
    {"sequence_parallel", {"false", "no"}},
    {"cp", {"2", "2"}},
    {"etp", {"2", "2"}},
    {"order", {"\"tp-cp-ep-pp-dp\"", "tp-cp-ep-pp-dp"}},
    {"expert_order", {"\"ep-etp-edp-pp\"", "ep-etp-edp-pp"}},
    {"virtual_stages", {"3", "3"}},
    {"micro_batch_group", {"5", "5"}},
    {"sharding", {"\"gradients\"", "gradients"}},
    {"shard_degree", {"4", "4"}},
    {"expert_shard_degree", {"4", "4"}},
    {"recompute", {"[\"norm\", \"moe\"]", "norm moe"}},
    {"recompute_layers", {"1", "1"}},
    {"swap", {"[\"optimizer\"]", "optimizer"}},
    {"matrix_owners", {"true", "yes"}},
    {"overlap.gradients", {"false", "no"}},
    {"overlap.parameters", {"false", "no"}},
    {"overlap.tensor", {"false", "no"}},
    {"overlap.experts", {"true", "yes"}},
    {"overlap.pipeline", {"false", "no"}},
};

LayoutSpec layout_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  ConfigTable table = ConfigTable::from_text(text, "run.toml", overrides);
  LayoutSpec out = read_layout(table.table("layout"), {"flat", "halo"});
  table.finish();
  return out;
}

TEST(LayoutKeys, EveryKeyReadsWritesPrintsAndComparesAlone) {
  std::set<std::string> seen;
  for (const LayoutKey& key : layout_keys()) {
    SCOPED_TRACE(key.name);
    EXPECT_TRUE(seen.insert(key.name).second);
    ASSERT_TRUE(others.contains(key.name));
    const Other other = others.at(key.name);
    const LayoutSpec plain, set = layout_of("", {fmt::format("layout.{}={}", key.name, other.toml)});
    for (const LayoutKey& k : layout_keys()) EXPECT_EQ(k.value(plain) != k.value(set), k.name == key.name) << k.name;
    EXPECT_NE(plain, set);
    EXPECT_EQ(layout_of(fmt::format("layout.{} = {}\n", key.name, other.toml)), set);  // from a file
    EXPECT_EQ(layout_of(to_toml(set)), set);                                           // written and read
    EXPECT_EQ(cell_text(key.value(set)), other.cell);
    const auto at = nlohmann::json::json_pointer("/" + std::string(key.name.starts_with("overlap.")
                                                                       ? "overlap/" + key.name.substr(8)
                                                                       : key.name));
    EXPECT_EQ(to_json(set).at(at), key.value(set));
    EXPECT_NE(to_json(set), to_json(plain));
    EXPECT_THAT(layout_key_help(), HasSubstr("\n  " + key.name + " "));
    EXPECT_FALSE(key.help.empty());
  }
  EXPECT_EQ(seen.size(), others.size());
}

TEST(LayoutKeys, TheManualListsEachWithItsDefault) {
  std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/docs/config.md");
  std::stringstream manual;
  manual << file.rdbuf();
  const LayoutSpec plain;
  for (const LayoutKey& key : layout_keys()) {
    const nlohmann::json value = key.value(plain);
    const std::string shown = value.is_string() || value.is_array() ? "`" + value.dump() + "`" : value.dump();
    EXPECT_THAT(manual.str(), HasSubstr("| `" + key.name + "` | " + shown + " |"));
  }
}

TEST(LayoutKeys, WhatTrainRefuses) {
  EXPECT_THAT(refused_keys({}), IsEmpty());
  // Everything that names a share of ranks, a schedule's detail or a choice without effect is executed.
  for (const char* key : {"pp", "dp", "ep", "stage_layers", "all_to_all", "bucket_MiB", "sequence_parallel",
                          "micro_batch_group", "shard_degree", "expert_shard_degree", "recompute_layers",
                          "overlap.tensor"})
    EXPECT_THAT(refused_keys(layout_of("", {fmt::format("layout.{}={}", key, others.at(key).toml)})), IsEmpty()) << key;
  for (const char* key : {"schedule", "tp", "cp", "etp", "virtual_stages", "sharding", "recompute", "swap",
                          "matrix_owners", "overlap.gradients", "overlap.parameters", "overlap.experts",
                          "overlap.pipeline"}) {
    const auto refused = refused_keys(layout_of("", {fmt::format("layout.{}={}", key, others.at(key).toml)}));
    ASSERT_EQ(refused.size(), 1u) << key;
    EXPECT_EQ(refused[0].key, std::string("layout.") + key);
    EXPECT_THAT(refused[0].wanted, HasSubstr("must be")) << key;
  }
  EXPECT_EQ(refused_keys(layout_of("layout.stage_layers = [0, 4]"))[0].wanted, "must be positive");
  LayoutSpec priced;
  priced.all_to_all = "allgather";
  EXPECT_THAT(refused_keys(priced)[0].wanted, HasSubstr("must be one of flat, pairwise"));
}

TEST(LayoutKeys, ValuesOutOfRangeNameTheKey) {
  const auto error = [](const char* set) -> std::string {
    try {
      layout_of("", {set});
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error("layout.tp=0"), "--set: layout.tp = 0: must lie in [1, 1048576]");
  EXPECT_EQ(error("layout.overlap.tensor=1"), "--set: layout.overlap.tensor = 1: expected true or false, found an integer");
  EXPECT_EQ(error("layout.all_to_all=bruck"), "--set: layout.all_to_all = \"bruck\": must be one of flat, halo");
  EXPECT_THAT(error("layout.swap=[\"everything\"]"), HasSubstr("\"everything\" is none of activations, optimizer"));
}

}  // namespace
}  // namespace trireme::plan
