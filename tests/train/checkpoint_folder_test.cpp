#include "train/checkpoint/checkpoint_folder.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "train/checkpoint/checkpoint_state.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;
namespace fs = std::filesystem;

class CheckpointFolder : public testing::Test {
 protected:
  ScratchFolder scratch_;

  void make(const std::string& name, bool complete = true) {
    fs::create_directories(scratch_.path() / name);
    if (complete) std::ofstream(scratch_.path() / name / index_file) << "{}";
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> out;
    for (const auto& info : list_checkpoints(scratch_.path())) out.push_back(info.step);
    return out;
  }
};

TEST_F(CheckpointFolder, NamesSortAsSteps) {
  EXPECT_EQ(checkpoint_name(120), "step-00000120");
  EXPECT_EQ(rank_file(3), "rank-00003.safetensors");
  EXPECT_LT(checkpoint_name(99), checkpoint_name(100));
}

TEST_F(CheckpointFolder, ListsCompleteOnesOnly) {
  make("step-00000120");
  make("step-00000040");
  make("step-00000200", false);  // no index: not complete
  make(".tmp-step-00000300");    // unfinished
  make("step-12x");              // somebody else's
  EXPECT_THAT(steps(), ElementsAre(40, 120));
  EXPECT_EQ(latest_checkpoint(scratch_.path()), (CheckpointInfo{120, scratch_.path() / "step-00000120"}));
  EXPECT_EQ(latest_checkpoint(scratch_.path() / "none"), std::nullopt);
}

TEST_F(CheckpointFolder, NamesThoseThatLostTheirIndex) {
  make("step-00000040", false);
  make("step-00000120");
  make("step-00000200", false);
  make(".tmp-step-00000300", false);  // a run died while it wrote it
  const auto damaged = damaged_checkpoints(scratch_.path(), 120);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0].step, 200);
}

TEST_F(CheckpointFolder, KeepsTheNewest) {
  for (const char* name : {"step-00000010", "step-00000020", "step-00000030"}) make(name);
  prune_checkpoints(scratch_.path(), {.newest = 0}, 30);
  EXPECT_THAT(steps(), ElementsAre(10, 20, 30));
  prune_checkpoints(scratch_.path(), {.newest = 2}, 30);
  EXPECT_THAT(steps(), ElementsAre(20, 30));
  prune_checkpoints(scratch_.path(), {.newest = 1}, 30);
  EXPECT_THAT(steps(), ElementsAre(30));
}

// A run that went back to an earlier step: what it has just written stays, though later steps are there.
TEST_F(CheckpointFolder, NeverPrunesWhatWasJustWritten) {
  for (const char* name : {"step-00000010", "step-00000020", "step-00000030"}) make(name);
  prune_checkpoints(scratch_.path(), {.newest = 1}, 10);
  EXPECT_THAT(steps(), ElementsAre(10));
}

TEST_F(CheckpointFolder, KeepsEveryNthStepBesidesTheNewest) {
  for (const char* name : {"step-00000010", "step-00000020", "step-00000030", "step-00000040", "step-00000050"}) make(name);
  prune_checkpoints(scratch_.path(), {.newest = 1, .every = 20}, 50);
  EXPECT_THAT(steps(), ElementsAre(20, 40, 50));
}

// Losses 3, 2, 2.5 at steps 10, 20, 30, none at 40 and one that is no number at 50: the best is step 20.
TEST_F(CheckpointFolder, KeepsTheBestAndNamesIt) {
  const std::map<std::string, nlohmann::json> losses = {
      {"step-00000010", 3.0}, {"step-00000020", 2.0}, {"step-00000030", 2.5}, {"step-00000040", nullptr}, {"step-00000050", nullptr}};
  for (const auto& [name, loss] : losses) {
    make(name);
    std::ofstream(scratch_.path() / name / state_file) << state_text({{eval_loss_key, loss}});
  }
  std::ofstream(scratch_.path() / "step-00000050" / state_file) << R"({"eval_loss": 0.1, "xxh3": "0"})";  // damaged: no candidate
  EXPECT_EQ(best_checkpoint(scratch_.path())->info.step, 20);
  prune_checkpoints(scratch_.path(), {.newest = 1, .best = true}, 40);
  EXPECT_THAT(steps(), ElementsAre(20, 40));
  std::ifstream in(scratch_.path() / best_file);
  const auto named = nlohmann::json::parse(in);
  EXPECT_EQ(named.at("step"), 20);
  EXPECT_EQ(named.at("eval_loss"), 2.0);
  EXPECT_EQ(named.at("folder"), "step-00000020");
}

TEST_F(CheckpointFolder, PublishReplacesACheckpointOfTheSameStep) {
  make("step-00000010");
  std::ofstream(scratch_.path() / "step-00000010" / "old");
  make(".tmp-step-00000010");
  publish(unfinished_path(scratch_.path(), 10), scratch_.path() / "step-00000010");
  EXPECT_THAT(steps(), ElementsAre(10));
  EXPECT_FALSE(fs::exists(scratch_.path() / "step-00000010" / "old"));
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 1);
}

TEST_F(CheckpointFolder, RemovesUnfinishedOnes) {
  make("step-00000010");
  make(".tmp-step-00000020");
  remove_unfinished(scratch_.path());
  EXPECT_THAT(steps(), ElementsAre(10));
  EXPECT_FALSE(fs::exists(scratch_.path() / ".tmp-step-00000020"));
}

}  // namespace
}  // namespace trireme::train
