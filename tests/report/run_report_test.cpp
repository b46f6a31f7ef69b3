#include "report/run_report.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "report/html_page.h"
#include "report/report_fixture.h"
#include "report/trace.h"

namespace trireme::report {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class RunReportTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("trireme_run_report_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    plan::write_plan(folder_, small_plan());
    plan::write_prediction(folder_, small_prediction());
  }
  void TearDown() override { fs::remove_all(folder_); }
  void measure() {
    for (const auto& m : small_measurement()) plan::write_measured(folder_, m);
    std::ofstream(folder_ / "metrics.jsonl")
        << "{\"step\": 1, \"loss\": 5.5, \"tokens_per_s\": 80, \"measured_step_s\": 12}\n"
        << "{\"step\": 2, \"loss\": 5.0, \"tokens_per_s\": 90, \"eval_loss\": 4.75, \"bigram_loss\": 4.5}\n"
        << "{\"step\": 3, \"lo";  // killed while it wrote
  }
  fs::path folder_;
};

TEST_F(RunReportTest, ComparesStepAndMemory) {
  measure();
  const RunReport r = make_run_report(folder_);
  EXPECT_EQ(r.step_s, (Pair{10, 12.5}));       // the slowest rank
  EXPECT_DOUBLE_EQ(r.step_s.error(), -0.2);    // (10 - 12.5) / 12.5
  EXPECT_EQ(r.peak_bytes, (Pair{300, 250}));
  // A checkpoint's copy of 60 on top of 300; the other stage's rank would have 200 + 30.
  EXPECT_EQ(r.checkpoint_peak_bytes, (Pair{360, 320}));
  EXPECT_EQ(r.checkpoint_copy_bytes, (Pair{60, 60}));
}

TEST_F(RunReportTest, ComparesEachKindOverAllRanks) {
  measure();
  const RunReport r = make_run_report(folder_);
  const auto row = [&](const std::string& kind) {
    for (const KindRow& k : r.kinds)
      if (k.kind == kind) return k;
    ADD_FAILURE() << kind;
    return KindRow{};
  };
  EXPECT_EQ(row("forward attention").seconds, (Pair{1, 2}));
  EXPECT_EQ(row("backward head").seconds, (Pair{2, 2}));
  EXPECT_EQ(row("receive backward").seconds, (Pair{6, 7}));
  EXPECT_EQ(row("reduce experts").seconds, (Pair{1, 1}));
  // Segments: attention 1 + 2 predicted, 2 + 3 measured.
  EXPECT_EQ(r.segments[0].kind, "attention");
  EXPECT_EQ(r.segments[0].seconds, (Pair{3, 5}));
}

// The fixture's first action made a dispatch, in two phases side by side.
TEST_F(RunReportTest, ComparesTheExchangesByPhase) {
  plan::Plan plan = small_plan();
  plan.all_to_all = "halo";
  plan.stages[0].actions[0] = {.id = 0, .kind = plan::ActionKind::all_to_all, .segment = plan::Segment::dispatch, .mb = 0,
                               .lane = plan::Lane::ep, .group = Axis::ep, .allocates = {0}};
  plan::write_plan(folder_, plan);
  plan::Prediction prediction = small_prediction();
  prediction.ranks[0].phases = {{0, "rows", "local", 0, 0.25}, {0, "rows", "remote", 0, 1}};
  prediction.patterns = {{"halo", 0.5}, {"flat", 0.75}};
  plan::write_prediction(folder_, prediction);
  measure();
  plan::MeasuredRank measured = small_measurement()[0];
  measured.phases = {{0, "rows", "local", 0, 0.5}, {0, "rows", "remote", 0.25, 2}};
  measured.phase_s = {0.5, 2};  // the mean over steps, where it is known
  plan::write_measured(folder_, measured);
  const RunReport r = make_run_report(folder_);
  ASSERT_EQ(r.phases.size(), 2u);
  EXPECT_EQ(r.phases[0].kind, "all_to_all forward dispatch");
  EXPECT_EQ(r.phases[0].part, "rows");
  EXPECT_EQ(r.phases[0].phase, "local");
  EXPECT_EQ(r.phases[0].count, 1);
  EXPECT_EQ(r.phases[0].seconds, (Pair{0.25, 0.5}));
  EXPECT_EQ(r.phases[1].seconds, (Pair{1, 2}));

  const std::string text = run_text(r);
  EXPECT_THAT(text, HasSubstr("Dispatch and combine by phase"));
  EXPECT_THAT(text, HasSubstr("halo (auto: predicted 500.0 ms a layer and micro-batch, forward and backward; runner-up flat, 750.0 ms)"));
  EXPECT_THAT(text, testing::ContainsRegex("rows +remote +1 +1.00 s +2.00 s +-50.0 %"));
  const nlohmann::json j = run_json(r);
  EXPECT_EQ(j["phases"][1]["phase"], "remote");
  EXPECT_EQ(j["phases"][1]["seconds"]["measured"], 2);
  EXPECT_EQ(j["all_to_all"]["pattern"], "halo");
  EXPECT_EQ(j["all_to_all"]["candidates"][1]["pattern"], "flat");

  // One rank's trace and page show its phases, each name on a row of its own.
  const auto trace = nlohmann::json::parse(trace_json(r.plan, {{"measured", r.measured_timelines()}}));
  std::set<std::string> rows;
  int spans = 0;
  for (const auto& e : trace["traceEvents"]) {
    if (e["name"] == "thread_name") rows.insert(e["args"]["name"].get<std::string>());
    if (e.value("cat", "") == "phase" && ++spans == 2) {
      EXPECT_EQ(e["name"], "remote rows");
      EXPECT_EQ(e["ts"], 0.25e6);
      EXPECT_EQ(e["dur"], 1.75e6);
    }
  }
  EXPECT_EQ(spans, 2);
  EXPECT_TRUE(rows.contains("phase local") && rows.contains("phase remote"));
  const std::string page = html_page({.title = "t", .text = text, .plan = r.plan, .predicted = r.prediction,
                                      .measured = r.measured_timelines(), .report = &r});
  EXPECT_THAT(page, HasSubstr("all_to_all phase remote"));

  // Kept from before.
  prediction.patterns = {{"dedup", 0.25}, {"halo", 0.5}};
  plan::write_prediction(folder_, prediction);
  EXPECT_THAT(run_text(make_run_report(folder_)), HasSubstr("halo (kept from the run's start; auto would choose dedup, predicted 250.0 ms"));

  measured.phases[0].action = 6;
  plan::write_measured(folder_, measured);
  EXPECT_THROW(make_run_report(folder_), ConfigError);
}

TEST_F(RunReportTest, SplitsEachRanksStepIntoComputeAndIdle) {
  measure();
  const RunReport r = make_run_report(folder_);
  // Rank 0 computes 1 + 2 + 1 of 10 s predicted, 2 + 3 + 1 of 12 measured.
  EXPECT_EQ(r.ranks[0].compute_s, (Pair{4, 6}));
  EXPECT_EQ(r.ranks[0].idle_s, (Pair{6, 6}));
  EXPECT_EQ(r.ranks[1].stage, 1);
}

TEST_F(RunReportTest, TextShowsErrorsLossAndFitsInColumns) {
  measure();
  const std::string text = run_text(make_run_report(folder_));
  EXPECT_THAT(text, HasSubstr("-20.0 %"));  // step
  EXPECT_THAT(text, HasSubstr("+20.0 %"));  // memory: (300 - 250) / 250
  EXPECT_THAT(text, HasSubstr("while a checkpoint is written"));
  EXPECT_THAT(text, HasSubstr("+12.5 %"));  // (360 - 320) / 320
  EXPECT_THAT(text, HasSubstr("Loss: 5.5000 at step 1, 5.0000 at step 2"));
  EXPECT_THAT(text, HasSubstr("Validation loss: 4.7500 at step 2; a bigram model of the same text has 4.5000"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST_F(RunReportTest, WithoutMeasurementsShowsThePrediction) {
  const RunReport r = make_run_report(folder_);
  EXPECT_EQ(r.kinds.size(), 10u);  // ten actions, no two of a kind
  EXPECT_THAT(run_text(r), HasSubstr("nothing was measured"));
  EXPECT_TRUE(run_json(r)["step_s"]["measured"].is_null());
}

TEST_F(RunReportTest, JsonHasBothSides) {
  measure();
  const nlohmann::json j = run_json(make_run_report(folder_));
  EXPECT_DOUBLE_EQ(j["step_s"]["error"], -0.2);
  EXPECT_EQ(j["tokens_per_s"]["measured"], 85);  // median of 80 and 90
  EXPECT_EQ(j["ranks"].size(), 2u);
  EXPECT_EQ(j["loss"]["training"][1][1], 5.0);
}

TEST_F(RunReportTest, ShowsThePredictionWithTheLoadAsItWas) {
  measure();
  RunReport r = make_run_report(folder_);
  EXPECT_THAT(run_text(r), testing::Not(HasSubstr("load as it was")));
  EXPECT_TRUE(run_json(r)["repriced_step_s"].is_null());
  r.repriced_step_s = 2 * r.step_s.measured;
  EXPECT_THAT(run_text(r), HasSubstr("with the expert load as it was"));
  EXPECT_DOUBLE_EQ(run_json(r)["repriced_step_s"]["error"], 1.0);
}

TEST_F(RunReportTest, RefusesMeasurementsOfAnotherPlan) {
  auto m = small_measurement()[0];
  m.spans.pop_back();
  plan::write_measured(folder_, m);
  try {
    make_run_report(folder_);
    FAIL() << "accepted";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 0: spans = 5: as many as the plan's stage has actions: 6"));
  }
}

TEST_F(RunReportTest, NamesAFolderThatIsNoRun) { EXPECT_THROW(make_run_report(folder_ / "no"), ConfigError); }

TEST_F(RunReportTest, NamesABrokenLineOfMetrics) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\": 1}\nnonsense\n{\"step\": 2}\n";
  try {
    read_metrics(folder_ / "metrics.jsonl");
    FAIL() << "read";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("metrics.jsonl:2"));
  }
}

// A number that was not finite is null in JSON; another type is nobody's writing.
TEST_F(RunReportTest, NamesTheLineAndKeyOfAMetricThatIsNoNumber) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\": 1, \"loss\": null}\n{\"step\": 2, \"loss\": \"2.5\"}\n";
  try {
    read_metrics(folder_ / "metrics.jsonl");
    FAIL() << "read";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("metrics.jsonl:2: loss = \"2.5\": expected a number"));
  }
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\": -1, \"loss\": 2}\n";
  EXPECT_THROW(read_metrics(folder_ / "metrics.jsonl"), ConfigError);
}

TEST_F(RunReportTest, AResumedStepReplacesTheEarlierOne) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}\n{\"step\": 2, \"loss\": 1}\n";
  const Metrics m = read_metrics(folder_ / "metrics.jsonl");
  ASSERT_EQ(m.loss.size(), 2u);
  EXPECT_EQ(m.loss[1].second, 1);
}

// Predicted, the two ranks idle for 12 of 20 s outside of messages of their stage (tests/report/exposure_test.cpp). Measured, rank 0
// idles in [2, 7) and, in its reduction, [10, 11) of 12 s; rank 1 in [0, 3) and [6, 12.5).
TEST_F(RunReportTest, SaysWhatRanksWaitFor) {
  measure();
  const RunReport r = make_run_report(folder_);
  const nlohmann::json j = run_json(r);
  EXPECT_DOUBLE_EQ(j["bubble_fraction"]["predicted"]["step"].get<double>(), 12.0 / 20);
  EXPECT_DOUBLE_EQ(j["bubble_fraction"]["measured"]["step"].get<double>(), (5 + 3 + 6.5) / 24.5);
  EXPECT_EQ(j["exposure"]["ranks"][0]["phases"][0]["bubble_s"]["measured"], 5);
  EXPECT_EQ(j["exposed_all_to_all_fraction"]["predicted"]["step"], 0);
  EXPECT_THAT(run_text(r), testing::ContainsRegex("step +bubble +12.00 s +60.0 % +14.50 s +59.2 %"));
  EXPECT_THAT(run_text(r), Not(HasSubstr("Exposed part of dispatch")));  // no experts are spread
}

TEST_F(RunReportTest, TraceHasAProcessARankAndAThreadALane) {
  measure();
  const RunReport r = make_run_report(folder_);
  const auto j = nlohmann::json::parse(trace_json(r.plan, {{"predicted", r.prediction.ranks}, {"measured", r.measured_timelines()}}));
  std::set<int> processes;
  int spans = 0, idle = 0;
  for (const auto& e : j["traceEvents"]) {
    processes.insert(e["pid"].get<int>());
    if (e.value("cat", "") == "idle") {
      ++idle;
      if (e["pid"] == 0 && e["ts"] == 1e6) {  // rank 0 is predicted to wait for the next stage in [1, 6)
        EXPECT_EQ(e["name"], "bubble");
        EXPECT_DOUBLE_EQ(e["dur"], 5e6);
      }
      continue;
    }
    spans += e["ph"] == "X";
    if (e["ph"] == "X" && e["pid"] == 100001 && e["args"]["id"] == 1) {
      EXPECT_DOUBLE_EQ(e["ts"], 3.5e6);  // measured start 3 s and rank 1's offset of 0.5 s, in microseconds
      EXPECT_DOUBLE_EQ(e["dur"], 1e6);
    }
  }
  EXPECT_EQ(processes, (std::set<int>{0, 1, 100000, 100001}));
  EXPECT_EQ(spans, 2 * (6 + 4));
  // Rank 0 idles before its backward and while its gradients are reduced, rank 1 before and after its two actions.
  EXPECT_EQ(idle, 2 * (2 + 2));
}

// Names that are marks of the template, or would end its elements, stand on the page as they are.
TEST_F(RunReportTest, ARunMayBeCalledAsTheTemplatesMarks) {
  const RunReport r = make_run_report(folder_);
  const std::string page = html_page({.title = "@DATA@", .text = "@TITLE@ </script>\x1b[2J\xff", .plan = r.plan, .predicted = r.prediction,
                                      .measured = {}, .report = &r});
  EXPECT_THAT(page, HasSubstr("<title>@DATA@</title>"));
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const auto begin = page.find(open) + open.size(), end = page.find("</script>", begin);
  const auto data = nlohmann::json::parse(page.substr(begin, end - begin));
  EXPECT_EQ(data["title"], "@DATA@");
  EXPECT_THAT(data["text"].get<std::string>(), HasSubstr("@TITLE@ </script>"));
}

// What run it is of: docs/report.md's list. The fixture has no run.toml; its plan is of two ranks, its platform invented.
TEST_F(RunReportTest, SaysOnTopOfWhatItIs) {
  measure();
  std::ofstream(folder_ / "run_info.json") << R"({"run": "3f2a", "sessions": [{"started": "2026-01-02T03:04:05Z", "version": "0.1.0"}]})";
  const RunReport r = make_run_report(folder_);
  const auto fact = [&](const std::string& what) {
    for (const Fact& f : r.facts)
      if (f.what == what) return f.value;
    return std::string();
  };
  EXPECT_THAT(fact("layout"), HasSubstr("pp 2 x dp 1 (ep 1) = 2 ranks, gpipe, 1 micro-batches"));
  EXPECT_EQ(fact("platform"), "invented, guessed, or not all measured");
  EXPECT_EQ(fact("date"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(fact("run"), "3f2a");
  EXPECT_THAT(run_text(r), HasSubstr("2026-01-02T03:04:05Z"));
  EXPECT_EQ(run_json(r)["about"]["run"], "3f2a");
  const std::string page = html_page({.title = "t", .text = "", .plan = r.plan, .predicted = r.prediction, .measured = r.measured_timelines(),
                                      .report = &r, .facts = r.facts});
  EXPECT_THAT(page, HasSubstr("2026-01-02T03:04:05Z"));
  EXPECT_THAT(page, HasSubstr("pale is predicted"));
  std::ofstream(folder_ / "run_info.json") << R"({"run": 3})";
  EXPECT_THROW(make_run_report(folder_), ConfigError);
}

TEST_F(RunReportTest, PageHoldsEverythingAndNeedsNothing) {
  measure();
  const RunReport r = make_run_report(folder_);
  const std::string page = html_page({.title = "a <b> run", .text = run_text(r), .plan = r.plan, .predicted = r.prediction,
                                      .measured = r.measured_timelines(), .report = &r});
  EXPECT_THAT(page, HasSubstr("<title>a &lt;b&gt; run</title>"));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
  EXPECT_THAT(page, Not(HasSubstr("@DATA@")));
  // The data is JSON that a parser reads back, and can't end its script element.
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const auto begin = page.find(open) + open.size(), end = page.find("</script>", begin);
  const auto data = nlohmann::json::parse(page.substr(begin, end - begin));
  EXPECT_EQ(data["ranks"].size(), 2u);
  EXPECT_EQ(data["ranks"][0]["measured"].size(), 6u + 2u);  // actions, and what rank 0 waits for: stage 1, and its reduction
  EXPECT_EQ(data["title"], "a <b> run");
}

}  // namespace
}  // namespace trireme::report
