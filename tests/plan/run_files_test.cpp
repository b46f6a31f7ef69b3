#include "plan/run_files.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "plan/pipeline/gpipe.h"

namespace trireme::plan {
namespace {

namespace fs = std::filesystem;

class RunFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("trireme_run_files_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(RunFiles, ComeBackAsTheyWere) {
  const Costs costs{.stages = {{.action_s = {0.1, 1e-7}, .action_workspace_bytes = {1, 2}, .buffer_bytes = {3}, .constant_bytes = 4}}};
  write_costs(folder_, costs);
  std::ifstream written(folder_ / "costs.json");
  EXPECT_EQ(nlohmann::json::parse(written).get<Costs>(), costs);

  Prediction p{.step_s = 0.25, .platform = "x", .ranks = {{.rank = 0, .spans = {{0, 1}}, .step_s = 1}}};
  p.memory = {{.points = {{0, 5}}, .peak_bytes = 5, .at_peak = {{"saved", 5}}}};
  p.constant = {{{"values", 4}}};
  write_prediction(folder_, p);
  EXPECT_EQ(read_prediction(folder_), p);
}

TEST_F(RunFiles, MeasuredRanksAreReadInOrder) {
  EXPECT_TRUE(read_measured(folder_).empty());
  write_measured(folder_, {.rank = 10, .step_s = 2});
  write_measured(folder_, {.rank = 2, .step_s = 1});
  EXPECT_TRUE(fs::exists(folder_ / "measured" / "rank-00010.json"));
  const auto all = read_measured(folder_);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].rank, 2);
  EXPECT_EQ(all[1].step_s, 2);
}

TEST_F(RunFiles, NameTheFileThatIsMissingOrBroken) {
  EXPECT_THROW(read_plan(folder_), ConfigError);
  std::ofstream(folder_ / "predicted.json") << "{\"ranks\": 3}";
  try {
    read_prediction(folder_);
    FAIL() << "read";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("predicted.json"));
  }
}

// A plan of one stage: a forward that fills a buffer and a backward that frees it.
Plan plan_of_two_actions() {
  Plan p{.mesh = {.pp = 1, .dp = 1}, .schedule = gpipe(1, 1), .num_micro_batches = 1};
  StagePlan stage{.chunks = {{.num_layers = 1, .embed = true, .head = true, .mtp = true}}, .buffers = {{.kind = BufferKind::saved, .mb = 0}}};
  stage.actions = {{.id = 0, .mb = 0, .chunk = 0, .allocates = {0}},
                   {.id = 1, .kind = ActionKind::backward, .pass = Pass::backward, .mb = 0, .chunk = 0, .waits = {0}, .frees = {0}}};
  p.stages = {stage};
  return p;
}

// Each change to a good plan.json, and what of the one error names it.
TEST_F(RunFiles, NameTheKeyThatIsNotWhatARunWrites) {
  using nlohmann::json;
  write_plan(folder_, plan_of_two_actions());
  EXPECT_EQ(read_plan(folder_), plan_of_two_actions());
  const json good = plan_of_two_actions();
  const auto refused = [&](const char* pointer, const json& value, const char* told) {
    json j = good;
    j[json::json_pointer(pointer)] = value;
    std::ofstream(folder_ / "plan.json") << j.dump();
    try {
      read_plan(folder_);
      ADD_FAILURE() << pointer << " = " << value << " was read";
    } catch (const ConfigError& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("plan.json: "));
      EXPECT_THAT(e.what(), testing::HasSubstr(told));
    }
  };
  refused("/stages/0/actions/1/id", 1'000'000, "action 1000000 stands at place 1");
  refused("/stages/0/actions/1/id", nullptr, "stages[0].actions[1].id = null: expected a whole number");
  refused("/stages/0/actions/1/id", -1, "stages[0].actions[1].id = -1: must lie in");
  refused("/stages/0/actions/1/id", 1.5, "stages[0].actions[1].id = 1.5: expected a whole number");
  refused("/stages/0/actions/1/lane", "computer", "stages[0].actions[1].lane = \"computer\": is not a word");
  refused("/stages/0/actions/1/waits", {7}, "waits for action 7");
  refused("/stages/0/actions/1/frees", {7}, "names buffer 7, of 1");
  refused("/stages/0/actions/1/chunk", 7, "is of a chunk that there is not");
  refused("/stages/0/actions/0/kind", "reduce", "names no bucket");
  refused("/stages/0/actions", json::object(), "stages[0].actions = object: expected an array");
  refused("/stages/0/more", 1, "stages[0].more = 1: is none of the keys");
  refused("/mesh/pp", 0, "mesh.pp = 0: must lie in");
  refused("/mesh/dp", 1'000'000, "mesh.dp = 1000000: must lie in");
  refused("/mesh/ranks_of_host", {2}, "mesh.ranks_of_host = 2: must add up to the 1 ranks");
  refused("/schedule", "gpipe, 1 stages, 2000000000 micro-batches, 1 chunk\nstage 0 | F0 B0\n", "schedule = 2000000000 micro-batches");
  refused("/schedule", "F0", "schedule line 1 = F0");
}

TEST_F(RunFiles, NameTheSpanThatEndsBeforeItStarts) {
  write_measured(folder_, {.rank = 0, .spans = {{1, 2}, {3, 2}}});
  EXPECT_THAT([&] { read_measured(folder_); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("rank-00000.json: spans[1].end_s = 2: must be at least start_s (3)")));
}

TEST(MeasuredSteps, TakesMediansAndTheTypicalStep) {
  MeasuredSteps m(3, 3);
  m.add(0, 100, {{0, 50}, {50, 60}});  // falls out: only three are kept
  m.add(1, 10, {{0, 4}, {4, 10}});
  m.add(2, 12, {{0, 6}, {6, 12}});
  m.add(3, 30, {{0, 5}, {5, 30}});
  const MeasuredRank r = m.summary(77);
  EXPECT_EQ(r.rank, 3);
  EXPECT_EQ(r.first_step, 1);
  EXPECT_EQ(r.num_steps, 3);
  EXPECT_EQ(r.step_s, 12);
  EXPECT_EQ(r.peak_memory_bytes, 77);
  EXPECT_EQ(r.spans[1], (Span{6, 12}));                      // of the step of 12 s
  EXPECT_EQ(r.action_s, (std::vector<double>{5, 6}));        // means over the steps of 12 and 10 s
}

TEST(MeasuredSteps, AnEvenNumberTakesTheMiddlesMean) {
  MeasuredSteps m(0, 4);
  for (double s : {1.0, 2.0, 4.0, 9.0}) m.add(1, s, {{0, s}});
  EXPECT_EQ(m.summary(0).step_s, 3);
}

TEST(MeasuredSteps, AveragesTheRowsOfExperts) {
  MeasuredSteps steps(0, 4);
  steps.add(2, 1.0, {{0, 1}, {1, 2}}, {0, 10});
  steps.add(3, 1.0, {{0, 1}, {1, 2}}, {0, 30});
  EXPECT_THAT(steps.summary(0).expert_rows, testing::ElementsAre(0, 20));
  MeasuredSteps none(0, 4);
  none.add(2, 1.0, {{0, 1}});
  EXPECT_TRUE(none.summary(0).expert_rows.empty());
}

TEST(MeasuredSteps, AveragesThePhasesOfExchanges) {
  // Steps of 1, 2 and 9 s: the nearer half to the median of 2 are those of 2 and 1 s.
  MeasuredSteps steps(0, 10);
  const auto add = [&](int step, double step_s, double phase_s) {
    steps.add(step, step_s, {{0, step_s}}, {}, {{.action = 0, .part = "rows", .phase = "remote", .start_s = 0.5, .end_s = 0.5 + phase_s}});
  };
  add(2, 1, 0.25);
  add(3, 2, 0.5);
  add(4, 9, 4);
  const MeasuredRank m = steps.summary(0);
  EXPECT_EQ(m.phases, (std::vector<PhaseSpan>{{0, "rows", "remote", 0.5, 1}}));
  EXPECT_EQ(m.phase_s, std::vector{0.375});
}

TEST(MeasuredSteps, OfNoStepIsABug) { EXPECT_THROW(MeasuredSteps(0, 3).summary(0), std::logic_error); }

}  // namespace
}  // namespace trireme::plan
