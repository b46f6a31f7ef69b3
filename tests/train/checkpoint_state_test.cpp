// All that a resume reads of a checkpoint is held against what was written.
#include "train/checkpoint/checkpoint_state.h"

#include <fstream>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint_fixture.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;
using nlohmann::json;
namespace fs = std::filesystem;

class CheckpointFiles : public testing::Test {
 protected:
  ScratchFolder scratch_;
  fs::path folder_ = scratch_.path() / "checkpoints";
  RunIdentity writer_{"run1", "session1"};

  fs::path save(std::int64_t step) {
    RankPart rank = make_rank(small_model(), {}, 0);
    fill_by_name(rank.hosted());
    CheckpointWriter writer({.folder = folder_, .writer = writer_, .asynchronous = false, .model = small_model()},
                            std::make_shared<InProcessCommitBarrier>());
    writer.save(step, rank.owned(), {{"seed", 1}, {"tokens_seen", 10 * step}, {"optimizer_steps", step}});
    return folder_ / checkpoint_name(step);
  }
  static std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void replace_in(const fs::path& path, const std::string& from, const std::string& to) {
    std::string text = text_of(path);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << path;
    std::ofstream(path, std::ios::binary) << text.replace(at, from.size(), to);
  }
  template <class F>
  static void expect_error(F&& action, const fs::path& file, const std::string& says) {
    try {
      action();
      ADD_FAILURE() << "no error; expected: " << says;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.detail().file, file.string());
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  }
};

TEST_F(CheckpointFiles, AChangedStateIsNoticed) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"optimizer_steps\": 6", "\"optimizer_steps\": 0"}, {"\"optimizer_steps\": 6", "\"optimizer_steps\": 1e300"},
           {"\"seed\": 1", "\"seed\": \"1\""}, {"\"tokens_seen\"", "\"tokens_sen\""}}) {
    const fs::path folder = save(6);
    replace_in(folder / state_file, from, to);
    expect_error([&] { CheckpointReader reader(folder); }, folder / state_file, "another checksum");
  }
}

TEST_F(CheckpointFiles, AChangedModelOrIndexIsNoticed) {
  fs::path folder = save(6);
  replace_in(folder / model_file, "norm_eps = ", "norm_eps = 1");
  expect_error([&] { CheckpointReader reader(folder); }, folder / model_file, "another checksum than index.json says");
  folder = save(7);
  replace_in(folder / index_file, "optimizer.exp_avg.embed.weight", "optimizer.exp_avg.ember.weight");
  expect_error([&] { CheckpointReader reader(folder); }, folder / index_file, "another checksum");
}

TEST_F(CheckpointFiles, ARenamedFolderIsNotTakenForAnotherStep) {
  const fs::path folder = save(40), renamed = folder_ / checkpoint_name(60);
  fs::rename(folder, renamed);
  expect_error([&] { CheckpointReader reader(renamed); }, renamed, "holds step 40: the folder has the name of another step");
  // Under a name that tells no step it is what it says.
  fs::rename(renamed, folder_ / "mine");
  EXPECT_EQ(CheckpointReader(folder_ / "mine").step(), 40);
}

// A state without a checksum, as before: the values that are read must still be of their type.
TEST_F(CheckpointFiles, AStateOfBeforeIsReadTyped) {
  const fs::path file = scratch_.path() / "state.json";
  const auto read = [&](const std::string& text) {
    std::ofstream(file) << text;
    return CheckpointState(file);
  };
  EXPECT_EQ(read(R"({"step": 6})").count("step"), 6);
  EXPECT_EQ(read(R"({"step": 6})").count_or("tokens_seen", 4), 4);
  EXPECT_FALSE(read(R"({"eval_loss": null})").number(eval_loss_key).has_value());
  for (const char* wrong : {"\"6\"", "6.5", "-1", "1e300", "null", "[6]", "18446744073709551615"}) {
    const CheckpointState state = read(std::string("{\"step\": ") + wrong + "}");
    expect_error([&] { state.count("step"); }, file, "step = ");
    expect_error([&] { state.count("step"); }, file, "must be a whole number, at least 0");
  }
  expect_error([&] { read("{}").count("step"); }, file, "this key is missing");
  expect_error([&] { read(R"({"eval_loss": "low"})").number(eval_loss_key); }, file, "must be a number");
  expect_error([&] { read("[1]"); }, file, "not a JSON object");
}

TEST_F(CheckpointFiles, ACheckpointOfBeforeLoadsAndSaysWhatHasNoChecksum) {
  const fs::path folder = save(6);
  EXPECT_EQ(CheckpointReader(folder).note(), "");
  // As the version before wrote them.
  std::ofstream(folder / state_file) << R"({"seed": 1, "tokens_seen": 60, "optimizer_steps": 6, "step": 6})";
  json index = json::parse(text_of(folder / index_file));
  for (const char* key : {"xxh3", "files", "run", "session"}) index.erase(key);
  std::ofstream(folder / index_file) << index.dump(1);
  const CheckpointReader reader(folder);
  EXPECT_EQ(reader.state().count("tokens_seen"), 60);
  EXPECT_THAT(reader.note(), HasSubstr("index.json, model.toml, state.json have no checksum"));
  reader.check_files();
}

// Two runs in one folder: the file of another session, of another run and of another step, each under this one's name.
TEST_F(CheckpointFiles, ARankFileOfAnotherRunIsNotCommitted) {
  const fs::path unfinished = unfinished_path(folder_, 6);
  const NamedTensor tensor{"embed.weight", at::ones({2})};
  for (const auto& [who, step, says] : std::vector<std::tuple<RunIdentity, std::int64_t, std::string>>{
           {{"run1", "session2"}, 6, "was written by session session2 of the run, not by session session1"},
           {{"run2", "session1"}, 6, "was written by run run2, not by run run1"},
           {{"run1", "session1"}, 4, "is of step 4, not of step 6"}}) {
    fs::create_directories(unfinished);
    write_safetensors(unfinished / rank_file(1), {&tensor, 1}, rank_file_metadata(step, who, {tensor}));
    try {
      index_rank_files(unfinished, 6, writer_, 2);
      ADD_FAILURE() << "no error; expected: " << says;
    } catch (const RuntimeFailure& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank-00001.safetensors " + says + ": another run writes into"));
    }
  }
}

TEST_F(CheckpointFiles, ARankFileOfAnotherCheckpointIsNoticedBeforeAnyIsRead) {
  const fs::path first = save(6), second = save(7);
  fs::copy_file(first / rank_file(0), second / rank_file(0), fs::copy_options::overwrite_existing);
  const CheckpointReader reader(second);
  expect_error([&] { reader.check_files(); }, second / rank_file(0), "is of step 6, not of step 7");
  fs::remove(first / rank_file(0));
  expect_error([&] { CheckpointReader(first).check_files(); }, first / rank_file(0), "cannot be opened");
}

TEST_F(CheckpointFiles, AnIndexNamesOnlyFilesBesideIt) {
  for (const char* outside : {"../rank-00000.safetensors", "/etc/passwd", "..", ""}) {
    const fs::path folder = save(6);
    json index = json::parse(text_of(folder / index_file));
    index["tensors"]["embed.weight"]["file"] = outside;
    index.erase("xxh3");
    std::ofstream(folder / index_file) << index.dump(1);
    expect_error([&] { CheckpointReader reader(folder); }, folder / index_file, "must name a file beside the index");
  }
}

TEST_F(CheckpointFiles, WhatForbidsACommitLeavesTheEarlierOnes) {
  save(6);
  RankPart rank = make_rank(small_model(), {}, 0);
  CheckpointWriter writer({.folder = folder_, .before_commit = [] { throw RuntimeFailure({.reason = "the folder was taken"}); },
                           .asynchronous = false, .model = small_model()},
                          std::make_shared<InProcessCommitBarrier>());
  EXPECT_THROW(writer.save(7, rank.owned(), {}), RuntimeFailure);
  EXPECT_EQ(latest_checkpoint(folder_)->step, 6);
}

}  // namespace
}  // namespace trireme::train
