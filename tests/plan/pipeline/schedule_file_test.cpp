#include "plan/pipeline/schedule_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/errors.h"
#include "plan/pipeline/generators.h"
#include "plan/plan.h"

namespace trireme::plan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ScheduleFiles : public ::testing::Test {
 protected:
  ScheduleFiles()
      : folder_(std::filesystem::temp_directory_path() / ("trireme_schedule_file_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ScheduleFiles() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path) << text;
    return path.string();
  }
  std::string error_of(const std::string& name, const std::string& text) const {
    try {
      load_schedule(write(name, text));
    } catch (const ConfigError& e) {
      EXPECT_EQ(e.detail().file, (folder_ / name).string());
      return std::string(e.what()).substr(e.detail().file.size());
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

TEST_F(ScheduleFiles, GridsAndCsvComeBack) {
  for (const std::string& name : schedule_names())
    for (const int p : {1, 2, 3})
      for (const int m : {p, 2 * p, 4 * p}) {
        const Schedule s = make_schedule(name, p, m);
        EXPECT_EQ(load_schedule(write("s.txt", to_text(s))), s);
        // A V of one stage is what a stage's chunks are without a map.
        Schedule from_csv = load_schedule(write(name + ".csv", to_csv(s)));
        if (p == 1) from_csv.pieces = s.pieces;
        EXPECT_EQ(from_csv, s) << to_csv(s);
      }
}

// As torch.distributed.pipelining writes it: line breaks of RFC 4180, empty cells for waiting.
TEST_F(ScheduleFiles, ReadPyTorchsCsv) {
  const Schedule s = load_schedule(write("mine.csv", "0F0,0F1,,,0B0,0B1\r\n,1F0,1B0,1F1,1B1\r\n"));
  EXPECT_EQ(to_text(s), "mine, 2 stages, 2 micro-batches, 1 chunk\nstage 0 | F0 F1 B0 B1\nstage 1 | F0 B0 F1 B1\n");
  // A V of one stage on two ranks: rank 1 has the two pieces in the middle, chunk 0 is the first of them.
  const Schedule v = load_schedule(write("v.csv", "0F0,3F0,3I0,3W0,0I0,0W0\n1F0,2F0,2I0,2W0,1I0,1W0\n"));
  EXPECT_EQ(v.pieces, (std::vector<std::vector<int>>{{0, 3}, {1, 2}}));
  const Schedule pair = load_schedule(write("p.csv", "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"));
  EXPECT_EQ(to_text(pair), "p, 1 stages, 2 micro-batches, 1 chunk\nstage 0 | F0 F1+B0 B1\n");
}

TEST_F(ScheduleFiles, AWrongGridSaysLineStageAndWhat) {
  const std::string heading = "x, 2 stages, 2 micro-batches, 1 chunk\n\n";
  EXPECT_EQ(error_of("a.txt", heading + "stage 0 | F0 F1 B0 B1\nstage 1 | F0 B0 F1\n"),
            ": schedule line 4: stage 1: micro-batch 1 chunk 0 has 1 F, 0 B, 0 I, 0 W; one F and one B (or one I and "
            "one W) are due");
  EXPECT_THAT(error_of("a.txt", heading + "stage 0 | F0 X1 B0 B1\nstage 1 | F0 B0 F1 B1\n"),
              HasSubstr(": schedule line 3 = X1: in the row of stage 0: must be a slot such as F0"));
  // Stage 1 wants micro-batch 1 first, which stage 0 sends second.
  EXPECT_EQ(error_of("a.txt", heading + "stage 0 | F0 F1 B1 B0\nstage 1 | F1 F0 B1 B0\n"),
            ": schedule line 4: stage 1: F1 needs a message from stage 0 that it gets after another one, which F0 "
            "there sends first: "
            "messages between two stages are taken in the order in which they are sent");
  // Gradients cross: stage 1 makes that of micro-batch 0 first, and stage 0 wants 1's.
  EXPECT_THAT(error_of("a.txt", heading + "stage 0 | F0 F1 B1 B0\nstage 1 | F0 F1 B0 B1\n"),
              AllOf(HasSubstr("schedule line 3: stage 0: B1 needs a message from stage 1"),
                    HasSubstr("which B0 there sends first")));
  EXPECT_THAT(error_of("a.txt", heading + "stage 0 | F0 B0 F1 B1\nstage 1 | F0 F1 B0 B1\n"),
              AllOf(HasSubstr("schedule line 3: stage 0 can't go on at slot 1 (B0)"), EndsWith("(and 1 more)")));
  EXPECT_THAT(error_of("a.txt", "stage 0 | F0 B0\n"), HasSubstr("schedule line 1"));
}

TEST_F(ScheduleFiles, AWrongCsvSaysLineCellStageAndWhat) {
  EXPECT_THAT(error_of("a.csv", "0F0,0B0\n\n1F0,1X0\n"),
              HasSubstr(": schedule line 3, cell 2 = 1X0: in the row of stage 1: must be an action such as 0F0"));
  EXPECT_THAT(error_of("a.csv", "0F0,0SEND_F0,0B0\n"),
              HasSubstr("cell 2 = 0SEND_F0: in the row of stage 0: messages are planned here"));
  EXPECT_THAT(error_of("a.csv", "0F0,0B0\n1F0,\n"),
              HasSubstr(": schedule line 2: stage 1: micro-batch 0 chunk 0 has 1 F, 0 B"));
  EXPECT_THAT(error_of("a.csv", "0F0,0B0\n0F0,0B0\n"), HasSubstr("schedule line 2: stage 1: piece 0 is held twice"));
  EXPECT_THAT(error_of("a.csv", "0F0,0B0\n2F0,2B0\n"),
              HasSubstr("schedule line 2: stage 1: piece 2 of a model of 2 pieces"));
  EXPECT_THAT(error_of("a.csv", "0F0,0B0\n,,\n"), HasSubstr("schedule line 2: the row of stage 1 holds no action"));
  EXPECT_THAT(error_of("a.csv", "\n"), HasSubstr("schedule = no row"));
  for (const char* cell :
       {"F0", "0F", "0F-1", "0F0 1", "(0F0;1B0)", "(0F0)OVERLAP_F_B", "(0F0;1B0OVERLAP_F_B", "99999999999F0"})
    EXPECT_THAT(error_of("a.csv", std::string(cell) + "\n"), HasSubstr("schedule line 1, cell 1")) << cell;
}

// From a run's file to a plan: the grid is the run's, its chunks are known, and what does not fit it is named.
TEST_F(ScheduleFiles, ARunTakesItsScheduleFromAFile) {
  const std::string text =
      "[model]\nvocab_size = 64\nhidden = 16\nnum_layers = 6\ndense_ffn = 32\nattention = {num_heads = 2}\n"
      "[layout]\npp = 2\nschedule_file = \"v.csv\"\n[batch]\nglobal_batch = 4\n";
  const Schedule v = make_schedule("zero_bubble_v", 2, 4);
  write("v.csv", to_csv(v));
  const std::string file = write("run.toml", text);
  const RunSpec run = load_run(file);
  EXPECT_EQ(run.layout.virtual_stages, 2);
  EXPECT_EQ(parse_run(to_toml(run), file), run);
  const Plan plan = make_training_plan(run, resolve_mesh(run, 2, MeshUse::planned));
  EXPECT_EQ(plan.schedule.rows, v.rows);
  EXPECT_THAT(problems(plan), IsEmpty());
  EXPECT_THAT(problems(make_evaluation_plan(run, plan.mesh, 3)), IsEmpty());
  const auto error = [&](const std::vector<std::string>& overrides, int ranks = 2,
                         MeshUse use = MeshUse::planned) -> std::string {
    try {
      resolve_mesh(load_run(file, overrides), ranks, use);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error({"layout.pp=3"}), HasSubstr("holds a schedule of 2 stages: layout.pp (3) must be that"));
  EXPECT_THAT(error({"layout.virtual_stages=3"}),
              HasSubstr("has 2 chunks a stage: layout.virtual_stages (3) must be that"));
  EXPECT_THAT(error({"batch.global_batch=8"}),
              HasSubstr("batch.global_batch = 8: is 8 micro-batches of a data rank; the schedule of"));
  EXPECT_THAT(error({"layout.stage_layers=[3,3]"}), HasSubstr("must have an entry for each of the 4 pieces"));
  EXPECT_EQ(error({"layout.stage_layers=[1,2,2,1]"}), "no error");
  EXPECT_THAT(error({}, 2, MeshUse::executed), HasSubstr("must be a schedule of whole backwards on one chunk a stage"));
  // What the runtime executes by name, it executes from a file.
  write("v.csv", to_csv(make_schedule("1f1b", 2, 4)));
  EXPECT_EQ(error({}, 2, MeshUse::executed), "no error");
  write("v.csv", "0F0,0B0\n");
  EXPECT_THAT(error({}), HasSubstr("holds a schedule of 1 stages"));
}

// Pieces where a grid says they are: the model's first on the last stage, the others on stage 0 with their chunks in
// the other order. Its forwards, its turn and an evaluation go by the model's order.
TEST_F(ScheduleFiles, PiecesLieWhereAGridSays) {
  const std::string text =
      "[model]\nvocab_size = 64\nhidden = 16\nnum_layers = 6\ndense_ffn = 32\nattention = {num_heads = 2}\n"
      "[layout]\npp = 2\nschedule_file = \"g.txt\"\n[batch]\nglobal_batch = 2\n";
  write("g.txt",
        "odd, 2 stages, 2 micro-batches, 2 chunks\nstage 0 (2 1) | F0.1 F0 F1.1 F1 B0 B0.1 B1 B1.1\n"
        "stage 1 (0 -) | F0 F1 B0 B1\n");
  const std::string file = write("run.toml", text);
  const RunSpec run = load_run(file);
  const Plan plan = make_training_plan(run, resolve_mesh(run, 2, MeshUse::planned));
  EXPECT_THAT(problems(plan), IsEmpty()) << to_text(plan);
  EXPECT_TRUE(plan.stages[0].chunks[0].head && plan.stages[1].chunks[0].embed);
  EXPECT_EQ(plan.stages[0].chunks[1].first_layer, 2);
  int messages = 0;
  for (const Action& a : plan.stages[0].actions)
    messages += a.kind == ActionKind::send || a.kind == ActionKind::receive;
  EXPECT_EQ(messages, 2 * 2);  // of each micro-batch, one forward and one backward
  EXPECT_THAT(problems(make_evaluation_plan(run, plan.mesh, 5)), IsEmpty());
  const auto error = [&](const std::vector<std::string>& overrides) -> std::string {
    try {
      load_run(file, overrides);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error({"model.tied_embeddings=true"}), "no error");  // on the first and the last stage
  write("g.txt",
        "odd, 3 stages, 1 micro-batches, 1 chunks\nstage 0 (1) | F0 B0\nstage 1 (0) | F0 B0\nstage 2 (2) | F0 B0\n");
  EXPECT_EQ(error({"layout.pp=3"}), "no error");
  EXPECT_THAT(error({"layout.pp=3", "model.tied_embeddings=true"}), HasSubstr("tied embeddings on stages 1 and 2"));
  write("g.txt", "odd, 2 stages, 1 micro-batches, 1 chunks\nstage 0 (0) | F0 B0\nstage 1 (-) |\n");
  EXPECT_THAT(error({}), HasSubstr("has no piece of the model on stage 1"));
}

// A tied head and embedding on one stage are one parameter: the later of their weight gradients completes it. In this
// grid the head's (chunk 1's) comes last.
TEST_F(ScheduleFiles, ABucketWaitsForBothHalvesOfATiedPair) {
  write("t.txt", "t, 1 stages, 1 micro-batches, 2 chunks\nstage 0 (0 1) | F0 F0.1 I0.1 I0 W0 W0.1\n");
  RunSpec run;
  run.model = {.vocab_size = 99,
               .hidden = 32,
               .num_layers = 4,
               .num_dense_layers = 4,
               .dense_ffn = 48,
               .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8}};
  run.model.tied_embeddings = true;
  run.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = 2};
  run.layout.bucket_MiB = 1e-3;
  run.layout.schedule_file = {.path = "t.txt", .grid = std::make_shared<Schedule>(load_schedule(folder_ / "t.txt"))};
  const Plan plan = make_training_plan(run, {.dp = 2});
  EXPECT_THAT(problems(plan), IsEmpty());
  const StagePlan& stage = plan.stages[0];
  int head = -1, reduced = -1;
  for (const Action& a : stage.actions) {
    if (a.kind == ActionKind::weight_gradient && a.segment == Segment::head) head = a.id;
    if (a.kind != ActionKind::reduce) continue;
    for (const BucketPart& part : stage.buckets[a.bucket].parts)
      if (part.segment == Segment::embed) reduced = a.id;
  }
  EXPECT_GE(head, 0);
  EXPECT_GT(reduced, head);
}

}  // namespace
}  // namespace trireme::plan
