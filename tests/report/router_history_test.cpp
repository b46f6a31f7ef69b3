#include "report/router_history.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "report/html_page.h"
#include "report/report_fixture.h"

namespace trireme::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RouterHistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() / ("trireme_router_history_" + std::to_string(::getpid()) + ".jsonl");
  }
  void TearDown() override { std::filesystem::remove(file_); }
  RouterHistory read(const std::string& lines) {
    std::ofstream(file_) << lines;
    return read_router_history(file_);
  }
  std::filesystem::path file_;
};

// Two MoE layers of four experts behind a dense one; step 2 is written again after a resume, without its rows.
const char* const kLines =
    R"({"step": 1, "loss": 5, "router_load": {"first_layer": 1, "max_over_mean": [2, 1.5], "min_over_mean": [0.5, 0], "cv": [0.6, 0.5], "rows": [[8, 4, 2, 2], [6, 6, 4, 0]]}}
{"step": 2, "loss": 5, "router_load": {"first_layer": 1, "max_over_mean": [9, 9], "min_over_mean": [0, 0], "cv": [9, 9]}}
{"step": 2, "loss": 5, "router_load": {"first_layer": 1, "max_over_mean": [1.25, 3], "min_over_mean": [0.75, 0], "cv": [0.2, 1]}}
{"step": 3, "loss": 5}
{"step": 4, "router_lo)";

TEST_F(RouterHistoryTest, KeepsTheLastLineOfAStepAndTheLastRows) {
  const RouterHistory h = read(kLines);
  EXPECT_EQ(h.first_layer, 1);
  ASSERT_EQ(h.points.size(), 2u);
  EXPECT_EQ(h.points[1].step, 2);
  EXPECT_THAT(h.points[1].max_over_mean, ElementsAre(1.25, 3));
  EXPECT_EQ(h.rows_step, 1);
  EXPECT_THAT(h.rows[1], ElementsAre(6, 6, 4, 0));
}

TEST_F(RouterHistoryTest, ARunWithoutExpertsHasNothing) {
  EXPECT_EQ(read("{\"step\": 1, \"loss\": 5}\n"), RouterHistory{});
  EXPECT_EQ(router_text({}), "");
  EXPECT_TRUE(router_json({}).is_null());
  EXPECT_EQ(read_router_history("no such file"), RouterHistory{});
}

// Layer 1: 2.00 at first, 1.25 at last, most at step 1. Layer 2 rises to 3 and leaves one of four experts without a row.
TEST_F(RouterHistoryTest, TheTextSaysItByLayer) {
  const std::string text = router_text(read(kLines));
  EXPECT_THAT(text, testing::ContainsRegex("1 +2\\.00 +1\\.25 +2\\.00 +1 +0\\.75 +0\\.20 +0 of 4"));
  EXPECT_THAT(text, testing::ContainsRegex("2 +1\\.50 +3\\.00 +3\\.00 +2 +0\\.00 +1\\.00 +1 of 4"));
}

// 16 rows over four experts have mean 4.
TEST_F(RouterHistoryTest, TheJsonHasTheHeatMap) {
  const nlohmann::json j = router_json(read(kLines));
  EXPECT_EQ(j["rows_over_mean"], nlohmann::json::parse("[[2, 1, 0.5, 0.5], [1.5, 1.5, 1, 0]]"));
  EXPECT_EQ(j["steps"], nlohmann::json::parse("[1, 2]"));
  EXPECT_EQ(j["max_over_mean"][1][1], 3);
}

TEST_F(RouterHistoryTest, ALongRunIsThinnedAndKeepsItsEnd) {
  RouterHistory h{.first_layer = 0};
  for (std::int64_t step = 1; step <= 5001; ++step) h.points.push_back({step, {1}, {1}, {0}});
  const nlohmann::json steps = router_json(h)["steps"];
  EXPECT_LE(steps.size(), 401u);
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 5001);
}

TEST_F(RouterHistoryTest, WhatDoesNotFitIsBadInputWithItsLine) {
  const std::string good = R"({"step": 1, "router_load": {"first_layer": 1, "max_over_mean": [2], "min_over_mean": [0], "cv": [1]}})";
  for (const char* bad : {R"({"step": 2, "router_load": 3})",
                          R"({"step": 2, "router_load": {"first_layer": 1, "max_over_mean": [2], "min_over_mean": [0]}})",
                          R"({"step": 2, "router_load": {"first_layer": 1, "max_over_mean": [2, 3], "min_over_mean": [0], "cv": [1]}})",
                          R"({"step": 2, "router_load": {"first_layer": 1, "max_over_mean": [2, 3], "min_over_mean": [0, 1], "cv": [1, 1]}})",
                          R"({"step": 2, "router_load": {"first_layer": 1, "max_over_mean": ["x"], "min_over_mean": [0], "cv": [1]}})"}) {
    try {
      read(good + "\n" + bad + "\n");
      ADD_FAILURE() << bad;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.detail().file, file_.string() + ":2") << bad;
      EXPECT_EQ(error.detail().key, "router_load") << bad;
    }
  }
}

TEST_F(RouterHistoryTest, ThePageDrawsItBehindItsOwnScript) {
  const plan::Plan plan = small_plan();
  const plan::Prediction prediction = small_prediction();
  const std::string page = html_page({.title = "t", .text = "x", .plan = plan, .predicted = prediction});
  const std::size_t own = page.find("const D=JSON.parse"), section = page.find("Load of experts"), end = page.rfind("</body>");
  ASSERT_NE(section, std::string::npos);
  EXPECT_LT(own, section);
  EXPECT_LT(section, end);
}

}  // namespace
}  // namespace trireme::report
