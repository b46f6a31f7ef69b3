#include "search/validation/validation.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trireme::search {
namespace {

using nlohmann::json;

// A GPT of 24 layers on one node with 8 GPUs, in one of three layouts.
Row row_of(const char* id, int tp, int pp, double seconds) {
  Row row{.id = id,
          .source = "vTrain",
          .model = "GPT h=2048 L=24 a=16",
          .hardware = "A100",
          .precision = "fp16",
          .devices = 8,
          .tp = tp,
          .pp = pp,
          .micro_batch = 2,
          .global_batch = 32,
          .sequence = 1024};
  row.recompute = "full", row.scorable = "yes", row.measured = seconds, row.unit = "s/iter";
  return row;
}

ValidationResult validated(const std::vector<Row>& rows) {
  PlatformLibrary platforms(TRIREME_SOURCE_DIR "/configs/platforms");
  const FindModel none = [](const std::string&, std::string&) { return std::optional<model::ModelSpec>(); };
  return validate(prepare(rows, none, platforms), platform::StackProfile{});
}

TEST(Validate, JsonHasItsRowsInOrder) {
  std::vector<Row> rows{row_of("b", 8, 1, 1), row_of("a", 1, 1, 1), row_of("c", 3, 1, 2), row_of("d", 1, 1, 0)};
  rows[3].scorable = "no: nothing was measured";
  rows[3].unit = "ms/iter or OOM";
  const json j = to_json(validated(rows));
  ASSERT_EQ(j["rows"].size(), 4u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const json& r = j["rows"][i];
    EXPECT_EQ(r["id"], rows[i].id);
    EXPECT_EQ(r["unit"], rows[i].unit);
    EXPECT_EQ(r["predicted"].is_number(), i < 2) << r;
    EXPECT_EQ(r["skipped"].is_null(), i < 2) << r;
  }
  EXPECT_EQ(j["rows"][0]["measured"], 1.0);
  EXPECT_TRUE(j["rows"][3]["measured"].is_null());
  EXPECT_EQ(j["rows"][2]["skipped"], "8 devices are no multiple of tp x pp x cp = 3");
  EXPECT_EQ(j["rows"][3]["skipped"], "nothing was measured");
  EXPECT_EQ(j["all"]["n"], 2);
  const double first = j["rows"][0]["predicted"], second = j["rows"][1]["predicted"];
  EXPECT_DOUBLE_EQ(j["all"]["mape"].get<double>(), (std::abs(first - 1) + std::abs(second - 1)) / 2);
  // Two numbers' median is their mean.
  EXPECT_DOUBLE_EQ(j["all"]["median_ape"].get<double>(), j["all"]["mape"].get<double>());
}

// A table of runs that are still to be made.
TEST(Validate, ARowWithoutAMeasuredValueIsPredictedAndNotCompared) {
  const json alone = to_json(validated({row_of("a", 8, 1, 1), row_of("b", 1, 1, 1)}));
  const ValidationResult both = validated({row_of("a", 8, 1, 1), row_of("b", 1, 1, 1), row_of("c", 1, 8, 0)});
  const json j = to_json(both);
  EXPECT_TRUE(j["rows"][2]["skipped"].is_null());
  EXPECT_TRUE(j["rows"][2]["measured"].is_null());
  EXPECT_EQ(j["rows"][2]["predicted"], to_json(validated({row_of("c", 1, 8, 1)}))["rows"][0]["predicted"]);
  for (const char* key : {"all", "groups", "by_stack", "time"}) EXPECT_EQ(j[key], alone[key]) << key;
  EXPECT_NE(to_text(both).find("-  s/iter"), std::string::npos);
}

// Measured in the opposite order of the prediction: the correlation is -1, and the layout that is predicted to be the
// fastest takes the slowest measured time.
TEST(Validate, GroupsRankLayoutsThatCompete) {
  std::vector<Row> rows{row_of("a", 1, 1, 1), row_of("b", 8, 1, 1), row_of("c", 1, 8, 1)};
  const ValidationResult order = validated(rows);
  std::vector<std::size_t> by_speed{0, 1, 2};
  std::sort(by_speed.begin(), by_speed.end(),
            [&](auto a, auto b) { return order.rows[a].predicted < order.rows[b].predicted; });
  rows[by_speed[0]].measured = 3, rows[by_speed[1]].measured = 2, rows[by_speed[2]].measured = 1.5;
  rows.push_back(row_of("other source", 2, 1, 1)), rows.back().source = "vTrain, another table";
  const json j = to_json(validated(rows));
  ASSERT_EQ(j["groups"].size(), 1u);
  EXPECT_EQ(j["groups"][0]["n"], 3);
  EXPECT_DOUBLE_EQ(j["groups"][0]["spearman"].get<double>(), -1);
  EXPECT_DOUBLE_EQ(j["groups"][0]["top1_regret"].get<double>(), 3 / 1.5 - 1);
  for (const char* key : {"name", "mape", "median_ape"}) EXPECT_TRUE(j["groups"][0].contains(key)) << key;
}

// 1e9 micro-batches would be a schedule of more slots than memory holds.
TEST(Validate, RefusesAScheduleThatCannotBeSimulated) {
  Row row = row_of("a", 1, 8, 1);
  row.global_batch = 1'000'000'000, row.micro_batch = 1;
  const ValidationResult result = validated({row, row_of("b", 8, 1, 1)});
  EXPECT_EQ(result.rows[0].skipped, "1000000000 micro-batches on 8 stages are more than can be simulated");
  EXPECT_EQ(result.rows[1].skipped, "");
}

}  // namespace
}  // namespace trireme::search
