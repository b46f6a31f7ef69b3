#include <cmath>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "train/metrics/console_progress.h"
#include "train/metrics/metrics_log.h"
#include "train/metrics/step_metrics.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

StepMetrics example(std::int64_t step) {
  return {.step = step,
          .loss = 4.65714,
          .aux_loss = 1.01,
          .z_loss = 0.5,
          .grad_norm = 1.3219,
          .learning_rate = 3e-4,
          .tokens_seen = 2048 * step,
          .tokens_per_s = 5211.4,
          .model_tflops = 0.0432,
          .predicted_step_s = 0.4,
          .measured_step_s = 0.5,
          .peak_memory_bytes = 412.0 * 1024 * 1024,
          .expert_load_max_over_mean = 1.75};
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::int64_t> steps(const std::filesystem::path& path) {
  std::vector<std::int64_t> out;
  for (const StepMetrics& m : read_metrics(path)) out.push_back(m.step);
  return out;
}

// The names that users and `trireme report` rely on.
TEST(StepMetrics, JsonHasTheNamesThatWePromise) {
  const auto json = to_json(example(3));
  for (const char* name :
       {"step", "loss", "grad_norm", "learning_rate", "tokens_per_s", "model_tflops", "predicted_step_s",
        "measured_step_s", "peak_memory_bytes", "aux_loss", "z_loss", "expert_load_max_over_mean", "tokens_seen"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json.at("step"), 3);
  EXPECT_EQ(json.at("tokens_seen"), 6144);
  EXPECT_FALSE(json.contains("eval_loss"));
  StepMetrics evaluated = example(3);
  evaluated.eval_loss = 4.7;
  EXPECT_EQ(to_json(evaluated).at("eval_loss"), 4.7);
}

TEST(StepMetrics, DataSetsAreObjectsByName) {
  StepMetrics m = example(4);
  m.eval_loss = 3.5;
  m.tokens_by_set = {{"code", 256}, {"text", 768}};
  m.eval_loss_by_set = {{"code", 2.5}, {"text", std::nan("")}};
  const auto json = nlohmann::json::parse(to_json(m).dump());
  EXPECT_EQ(json.at("tokens_by_set"), (nlohmann::json{{"code", 256}, {"text", 768}}));
  EXPECT_EQ(json.at("eval_loss_by_set"), (nlohmann::json{{"code", 2.5}, {"text", nullptr}}));
  const StepMetrics back = step_metrics_from_json(json);
  EXPECT_EQ(back.tokens_by_set, m.tokens_by_set);
  EXPECT_TRUE(std::isnan(back.eval_loss_by_set.at("text")));
  m.eval_loss_by_set["text"] = 4.5;
  EXPECT_THAT(ConsoleProgress(10).line(m), ::testing::HasSubstr("eval 3.5000 [code 2.5000, text 4.5000]"));
}

TEST(StepMetrics, ANumberThatIsNotFiniteIsNull) {
  StepMetrics m = example(1);
  m.loss = std::nan("");
  m.grad_norm = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(to_json(m).dump());
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_TRUE(json.at("grad_norm").is_null());
  EXPECT_TRUE(std::isnan(step_metrics_from_json(json).loss));
}

TEST(MetricsLog, WritesOneLineAStepThatReadsBack) {
  ScratchFolder scratch;
  const auto path = scratch.path() / "run" / "metrics.jsonl";
  MetricsLog log(path, 0);
  StepMetrics second = example(2);
  second.eval_loss = 4.25;
  second.bigram_loss = 5.5;
  log.write(example(1));
  log.write(second);
  const auto read = read_metrics(path);  // while the log is open: every line is there at once
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(to_json(read[0]), to_json(example(1)));
  EXPECT_EQ(to_json(read[1]), to_json(second));
}

TEST(MetricsLog, AResumeRemovesLaterLinesAndHalfLines) {
  ScratchFolder scratch;
  const auto path = scratch.path() / "metrics.jsonl";
  {
    MetricsLog log(path, 0);
    for (const std::int64_t step : {1, 2, 3, 4}) log.write(example(step));
  }
  std::ofstream(path, std::ios::app) << R"({"step": 2, "lo)";
  MetricsLog log(path, 2);
  EXPECT_THAT(steps(path), ElementsAre(1, 2));
  log.write(example(3));
  EXPECT_THAT(steps(path), ElementsAre(1, 2, 3));
  EXPECT_EQ(contents(path).back(), '\n');
}

TEST(MetricsLog, AFreshRunStartsEmpty) {
  ScratchFolder scratch;
  const auto path = scratch.path() / "metrics.jsonl";
  { MetricsLog(path, 0).write(example(1)); }
  MetricsLog log(path, 0);
  EXPECT_EQ(contents(path), "");
}

TEST(MetricsLog, NamesAFileThatCannotBe) {
  ScratchFolder scratch;
  std::ofstream(scratch.path() / "file") << "x";
  try {
    MetricsLog log(scratch.path() / "file" / "metrics.jsonl", 0);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().file, (scratch.path() / "file" / "metrics.jsonl").string());
    EXPECT_THAT(error.what(), HasSubstr("cannot be written"));
  }
}

TEST(MetricsLog, NamesABrokenLine) {
  ScratchFolder scratch;
  const auto path = scratch.path() / "metrics.jsonl";
  std::ofstream(path) << "{\"step\": 1}\nnonsense\n";
  try {
    read_metrics(path);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().key, "line 2");
  }
}

// 0.5 s against 0.4 s predicted is +25 %; 1880 steps left of 0.5 s are 940 s = 15m 40s.
TEST(ConsoleProgress, IsOneLineWithEverything) {
  ConsoleProgress progress(2000);
  EXPECT_EQ(progress.line(example(120)),
            "step  120/2000  loss 4.6571  grad 1.32  lr 3.0e-04  5.21k tok/s  0.0432 TFLOP/s  step 0.500 s (predicted "
            "0.400, +25%)  load 1.8x  peak 412 MiB  left 15m 40s");
}

TEST(ConsoleProgress, LeavesOutWhatIsNotThere) {
  StepMetrics m = example(1);
  m.predicted_step_s = 0;
  m.expert_load_max_over_mean = 0;
  m.peak_memory_bytes = 0;
  const std::string line = ConsoleProgress(10).line(m);
  EXPECT_THAT(line, Not(HasSubstr("predicted")));
  EXPECT_THAT(line, Not(HasSubstr("load")));
  EXPECT_THAT(line, Not(HasSubstr("peak")));
  EXPECT_THAT(line, HasSubstr("step 0.500 s  left"));
  m.eval_loss = 4.25;
  m.bigram_loss = 5.5;
  EXPECT_THAT(ConsoleProgress(10).line(m), HasSubstr("loss 4.6571  eval 4.2500 (bigram 5.5000)  grad"));
}

// A first step of 100 s (warming up) is forgotten at the second, of 1 s: 8 left are 8 s.
TEST(ConsoleProgress, TheFirstStepDoesNotCountInTheTimeLeft) {
  ConsoleProgress progress(10);
  StepMetrics m = example(1);
  m.measured_step_s = 100;
  progress.line(m);
  m.step = 2;
  m.measured_step_s = 1;
  EXPECT_THAT(progress.line(m), testing::EndsWith("left 8s"));
}

TEST(Describe, DurationsAndBytes) {
  EXPECT_EQ(describe_duration(42.4), "42s");
  EXPECT_EQ(describe_duration(760), "12m 40s");
  EXPECT_EQ(describe_duration(3 * 3600 + 5 * 60 + 59), "3h 05m");
  EXPECT_EQ(describe_duration(2 * 86400 + 4 * 3600 + 100), "2d 4h");
  EXPECT_EQ(describe_bytes(412.0 * 1024 * 1024), "412 MiB");
  EXPECT_EQ(describe_bytes(1.5 * 1024 * 1024 * 1024), "1.50 GiB");
}

}  // namespace
}  // namespace trireme::train
