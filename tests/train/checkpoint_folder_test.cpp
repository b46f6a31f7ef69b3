#include "train/checkpoint/checkpoint_folder.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(CheckpointFolder, KeepsTheNewest) {
  for (const char* name : {"step-00000010", "step-00000020", "step-00000030"}) make(name);
  prune_checkpoints(scratch_.path(), 0, 30);
  EXPECT_THAT(steps(), ElementsAre(10, 20, 30));
  prune_checkpoints(scratch_.path(), 2, 30);
  EXPECT_THAT(steps(), ElementsAre(20, 30));
  prune_checkpoints(scratch_.path(), 1, 30);
  EXPECT_THAT(steps(), ElementsAre(30));
}

// A run that went back to an earlier step: what it has just written stays, though later steps are there.
TEST_F(CheckpointFolder, NeverPrunesWhatWasJustWritten) {
  for (const char* name : {"step-00000010", "step-00000020", "step-00000030"}) make(name);
  prune_checkpoints(scratch_.path(), 1, 10);
  EXPECT_THAT(steps(), ElementsAre(10));
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
