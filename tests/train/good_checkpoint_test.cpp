#include "train/guard/good_checkpoint.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/checkpoint/checkpoint_state.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

void make(const std::filesystem::path& folder, std::initializer_list<std::int64_t> steps) {
  for (const std::int64_t step : steps) {
    std::filesystem::create_directories(folder / checkpoint_name(step));
    std::ofstream(folder / checkpoint_name(step) / index_file) << "{}";
  }
}

// The weights of step 44 are first seen in step 45: where that is bad, they may be what is bad.
TEST(GoodCheckpoint, TheOneRightBeforeABadStepIsNone) {
  ScratchFolder scratch;
  make(scratch.path(), {40, 44});
  EXPECT_EQ(last_good_checkpoint(scratch.path(), 45)->step, 40);
  EXPECT_EQ(last_good_checkpoint(scratch.path(), 46)->step, 44);
  EXPECT_EQ(last_good_checkpoint(scratch.path(), 41), std::nullopt);
  EXPECT_EQ(describe_good_checkpoint(scratch.path(), 46),
            "the last good checkpoint is " + (scratch.path() / "step-00000044").string());
  EXPECT_EQ(describe_good_checkpoint(scratch.path(), 45),
            "the last good checkpoint is " + (scratch.path() / "step-00000040").string() +
                " (that of step 44 holds the weights that step 45 began with)");
}

TEST(GoodCheckpoint, ThereMayBeNone) {
  ScratchFolder scratch;
  EXPECT_EQ(describe_good_checkpoint(scratch.path() / "none", 2), "no checkpoint has been written");
  make(scratch.path(), {1});
  EXPECT_EQ(describe_good_checkpoint(scratch.path(), 2),
            "there is no good checkpoint (that of step 1 holds the weights that step 2 began with)");
}

TEST(GoodCheckpoint, ThoseBehindAreRemoved) {
  ScratchFolder scratch;
  make(scratch.path(), {30, 40, 44});
  remove_checkpoints_behind(scratch.path(), 40);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, testing::UnorderedElementsAre("step-00000030", "step-00000040"));
}

// A run that goes back from its best checkpoint.
TEST(GoodCheckpoint, TheBestIsNamedAnewAmongThoseThatAreLeft) {
  ScratchFolder scratch;
  make(scratch.path(), {30, 40, 44});
  const auto evaluate = [&](std::int64_t step, double loss) {
    std::ofstream(scratch.path() / checkpoint_name(step) / state_file) << state_text({{"step", step}, {eval_loss_key, loss}});
  };
  evaluate(30, 2.5), evaluate(40, 3.5), evaluate(44, 1.5);
  ASSERT_EQ(name_best_checkpoint(scratch.path())->info.step, 44);
  remove_checkpoints_behind(scratch.path(), 40);
  std::stringstream named;
  named << std::ifstream(scratch.path() / best_file).rdbuf();
  EXPECT_THAT(named.str(), testing::HasSubstr("step-00000030"));
  std::filesystem::remove_all(scratch.path() / checkpoint_name(30));
  std::filesystem::remove(scratch.path() / checkpoint_name(40) / state_file);
  remove_checkpoints_behind(scratch.path(), 40);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / best_file));
}

}  // namespace
}  // namespace trireme::train
