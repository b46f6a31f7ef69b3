#include "report/rehearsal_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/html_page.h"
#include "report/report_fixture.h"

namespace trireme::report {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Made {
  RunReport report = compare(small_plan(), small_prediction(), small_measurement());
  RehearsalView view{report, 11, "spread evenly", 4096};
};

TEST(RehearsalReport, TextSaysWhereverFiguresAreThatTheyAreEmulated) {
  const Made m;
  const std::string text = rehearsal_text(m.view);
  EXPECT_THAT(text, HasSubstr("emulated: every segment was replaced by a wait"));
  // The slowest of two ranks took 12.5 s, and 10 were predicted.
  EXPECT_THAT(text, ContainsRegex("step, emulated +10.00 s +12.50 s +-20.0 %"));
  EXPECT_THAT(text, ContainsRegex("training step, by the plan +11.00 s"));
  EXPECT_THAT(text, HasSubstr("rehearsed over 3 steps; each rank held 4.0 KiB of messages at most"));
  EXPECT_THAT(text, HasSubstr("rows by expert: spread evenly"));
  EXPECT_THAT(text, ContainsRegex("receive backward +backward_receive +1 +6.00 s +7.00 s +-14.3 %"));
  EXPECT_THAT(text, Not(HasSubstr("measured")));
}

TEST(RehearsalReport, JsonHasFractionsByPhaseAndRank) {
  const Made m;
  const nlohmann::json j = rehearsal_json(m.view);
  EXPECT_EQ(j["emulated"], emulated_note);
  EXPECT_EQ(j["step_s"], 12.5);
  EXPECT_EQ(j["predicted_step_s"], 10);
  EXPECT_EQ(j["plan_step_s"], 11);
  EXPECT_EQ(j["steps"], 3);
  // Warm-up: rank 0 idles for 5 of 7 s and rank 1 for 3 of 4 (spans of report_fixture.h); predicted 5 of 6 and 2 of 3.
  EXPECT_DOUBLE_EQ(j["bubble_fraction"]["warm_up"].get<double>(), 8.0 / 11);
  EXPECT_DOUBLE_EQ(j["predicted_bubble_fraction"]["warm_up"].get<double>(), 7.0 / 9);
  EXPECT_DOUBLE_EQ(j["ranks"][1]["bubble_fraction"]["warm_up"].get<double>(), 3.0 / 4);
  EXPECT_EQ(j["ranks"][1]["step_s"], 12.5);
  EXPECT_EQ(j["exposed_all_to_all_fraction"]["steady"], 0);
  EXPECT_EQ(j["exposure"]["phases"][1]["bubble_s"]["rehearsed"], 8);
  EXPECT_EQ(j["kinds"][0]["seconds"]["rehearsed"], 2);
  EXPECT_FALSE(j.dump().find("\"measured\":12") != std::string::npos);
}

TEST(RehearsalReport, ThePageCallsItsFiguresRehearsed) {
  const Made m;
  const std::string page = html_page({.title = "run, rehearsed", .text = rehearsal_text(m.view), .plan = m.report.plan,
                                      .predicted = m.report.prediction, .measured = m.report.measured_timelines(),
                                      .report = &m.report, .measured_as = rehearsed});
  EXPECT_THAT(page, HasSubstr("\"measured_as\":\"rehearsed\""));
}

}  // namespace
}  // namespace trireme::report
