#include "train/run_folder/run_info.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

nlohmann::json read(const std::filesystem::path& folder) {
  std::ifstream in(folder / run_info_file);
  return nlohmann::json::parse(in);
}

TEST(RunInfo, ASessionIsAddedAtEachResume) {
  ScratchFolder scratch;
  EXPECT_EQ(run_id_of(scratch.path()), "");
  add_session(scratch.path(), "small", {"r1", "s1"},
              {.command = {"trireme", "train", "run.toml"}, .version = "0.1.0 (abc)", .rank_hosts = {"a", "a", "b"}});
  add_session(scratch.path(), "small", {"r1", "s2"}, {.from_step = 40, .environment = {{"OMP_NUM_THREADS", "2"}}});
  EXPECT_EQ(run_id_of(scratch.path()), "r1");
  const auto info = read(scratch.path());
  ASSERT_EQ(info.at("sessions").size(), 2u);
  const auto& first = info["sessions"][0];
  EXPECT_EQ(first.at("command"), (std::vector<std::string>{"trireme", "train", "run.toml"}));
  EXPECT_EQ(first.at("version"), "0.1.0 (abc)");
  EXPECT_EQ(first.at("hosts"), nlohmann::json::parse(R"([{"host": "a", "ranks": 2}, {"host": "b", "ranks": 1}])"));
  EXPECT_EQ(info["sessions"][1].at("from_step"), 40);
  EXPECT_EQ(info["sessions"][1].at("environment").at("OMP_NUM_THREADS"), "2");
  // A fresh start is another run.
  add_session(scratch.path(), "small", {"r2", "s3"}, {});
  EXPECT_EQ(run_id_of(scratch.path()), "r2");
  EXPECT_EQ(read(scratch.path()).at("sessions").size(), 1u);
}

TEST(RunInfo, ADamagedFileIsNamed) {
  ScratchFolder scratch;
  std::ofstream(scratch.path() / run_info_file) << "{\"run\": 5}";
  try {
    run_id_of(scratch.path());
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().file, (scratch.path() / run_info_file).string());
  }
}

TEST(RunInfo, KeepsWhatMattersAndNoSecrets) {
  const auto kept = telling_variables({{"SLURM_JOB_ID", "7"}, {"SLURM_JWT", "x"}, {"NCCL_DEBUG", "INFO"}, {"HOME", "/root"},
                                       {"RANK", "0"}, {"MASTER_ADDR", "a"}, {"TORCH_TOKEN", "x"}, {"AWS_SECRET_ACCESS_KEY", "x"}});
  EXPECT_THAT(kept, testing::ElementsAre(testing::Key("MASTER_ADDR"), testing::Key("NCCL_DEBUG"), testing::Key("RANK"), testing::Key("SLURM_JOB_ID")));
}

TEST(RunInfo, IdsDiffer) {
  EXPECT_EQ(random_id().size(), 12u);
  EXPECT_NE(random_id(), random_id());
}

}  // namespace
}  // namespace trireme::train
