#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <set>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/parameters.h"
#include "nn/counting_allocator.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint_fixture.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Checkpoint : public testing::Test {
 protected:
  ScratchFolder scratch_;
  fs::path folder_ = scratch_.path() / "checkpoints";

  // Saves from all ranks at once, each with a writer of its own.
  void save(const model::ModelSpec& spec, const std::vector<RankPart>& ranks, std::int64_t step, int keep = 2) {
    const int world = static_cast<int>(ranks.size());
    auto barrier = std::make_shared<InProcessCommitBarrier>(world);
    std::vector<std::unique_ptr<CheckpointWriter>> writers;
    for (int rank = 0; rank < world; ++rank) {
      writers.push_back(std::make_unique<CheckpointWriter>(
          CheckpointWriterOptions{.folder = folder_, .rank = rank, .num_ranks = world, .keep = {keep}, .model = spec},
          barrier));
    }
    for_all_ranks(world, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      writers[r]->save(step, ranks[r].owned(), {{"tokens_seen", 1000 * step}});
      writers[r]->finish();
    });
  }

  // One rank's checkpoint of the small model, filled by name; returns its folder.
  fs::path save_small(std::int64_t step, at::ScalarType dtype = at::kFloat) {
    std::vector<RankPart> ranks = make_ranks(small_model(), {}, dtype);
    fill_by_name(ranks[0].hosted());
    save(small_model(), ranks, step);
    return folder_ / checkpoint_name(step);
  }

  template <class F>
  void expect_error(F&& action, const std::string& file, const std::string& key, const std::string& text) {
    try {
      action();
      ADD_FAILURE() << "no error; expected: " << text;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.detail().file, file);
      EXPECT_EQ(error.detail().key, key);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
};

// Tensors are filled from their names, so what any layout reads must be what the name says, whoever wrote it.
TEST_F(Checkpoint, LoadsBitForBitIntoEveryLayout) {
  const model::ModelSpec spec = small_model();
  const std::vector<plan::Mesh> meshes = {{1, 1, 1}, {2, 2, 2}, {1, 4, 2}, {4, 1, 1}, {1, 3, 1}, {2, 4, 4}};
  for (const plan::Mesh& from : meshes) {
    std::vector<RankPart> writing = make_ranks(spec, from);
    for (const RankPart& rank : writing) fill_by_name(rank.hosted());
    save(spec, writing, 10);
    CheckpointReader reader(folder_ / checkpoint_name(10));
    for (const plan::Mesh& to : meshes) {
      for (RankPart& rank : make_ranks(spec, to)) {
        resume(reader, *rank.model, *rank.optimizer);
        EXPECT_EQ(rank.optimizer->num_steps(), 10);
        const std::vector<NamedTensor> loaded = rank.hosted();
        std::vector<NamedTensor> expected;
        for (const NamedTensor& t : loaded) expected.push_back({t.name, at::empty_like(t.tensor)});
        fill_by_name(expected);
        for (std::size_t i = 0; i < loaded.size(); ++i) {
          EXPECT_TRUE(at::equal(loaded[i].tensor, expected[i].tensor))
              << loaded[i].name << " of rank " << rank.ownership.rank;
        }
      }
    }
  }
}

// 3 tensors (value and two moments) a parameter, and a selection bias for each of the 3 MoE layers; the union of what
// the ranks own is that, with nothing twice.
TEST_F(Checkpoint, EveryTensorHasOneOwner) {
  const model::ModelSpec spec = small_model();
  const std::size_t expected = 3 * model::parameters(spec).size() + 3;
  for (const plan::Mesh& mesh : std::vector<plan::Mesh>{{1, 1, 1}, {2, 4, 2}, {4, 2, 1}, {1, 4, 4}}) {
    std::multiset<std::string> names;
    for (const RankPart& rank : make_ranks(spec, mesh)) {
      for (const NamedTensor& t : rank.owned()) names.insert(t.name);
    }
    EXPECT_EQ(names.size(), expected);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), expected);
  }
}

TEST_F(Checkpoint, TiedEmbeddingsAreSavedOnceAndLoadedOnBothStages) {
  model::ModelSpec spec = small_model();
  spec.tied_embeddings = true;
  std::vector<RankPart> ranks = make_ranks(spec, {.pp = 2});
  for (const RankPart& rank : ranks) fill_by_name(rank.hosted());
  save(spec, ranks, 1);
  CheckpointReader reader(folder_ / checkpoint_name(1));
  for (RankPart& rank : make_ranks(spec, {.pp = 2})) {
    resume(reader, *rank.model, *rank.optimizer);
    bool seen = false;
    for (const NamedTensor& t : rank.hosted()) {
      if (t.name != "embed.weight") continue;
      EXPECT_TRUE(at::equal(t.tensor, reader.tensor("embed.weight")));
      seen = true;
    }
    EXPECT_TRUE(seen) << "stage " << rank.ownership.rank;
  }
}

TEST_F(Checkpoint, KeepsMastersOfLowPrecision) {
  save_small(1, at::kBFloat16);
  CheckpointReader reader(folder_ / checkpoint_name(1));
  RankPart rank = make_rank(small_model(), {}, 0, at::kBFloat16);
  resume(reader, *rank.model, *rank.optimizer);
  const std::string name = "layers.0.attention.q.weight";
  EXPECT_EQ(reader.tensor(name).scalar_type(), at::kBFloat16);
  EXPECT_EQ(reader.tensor(master_name(name)).scalar_type(), at::kFloat);
  // As a source of weights for another run, the master is what counts.
  RankPart fresh = make_rank(small_model(), {}, 0);
  start_from(reader, *fresh.model, *fresh.optimizer);
  for (const NamedTensor& t : fresh.hosted()) {
    if (t.name == name) {
      EXPECT_TRUE(at::equal(t.tensor, reader.tensor(master_name(name))));
    }
  }
}

TEST_F(Checkpoint, StateComesBackAndTheStepIsAdded) {
  CheckpointReader reader(save_small(7));
  EXPECT_EQ(reader.step(), 7);
  EXPECT_EQ(reader.state().count("step"), 7);
  EXPECT_EQ(reader.state().count("tokens_seen"), 7000);
  EXPECT_EQ(reader.model(), small_model());
}

// The tensors change as soon as save() is back; the file has what they were.
TEST_F(Checkpoint, AsynchronousSavesCopyFirst) {
  RankPart rank = make_rank(small_model(), {}, 0);
  fill_by_name(rank.hosted());
  CheckpointWriter writer({.folder = folder_, .model = small_model()}, std::make_shared<InProcessCommitBarrier>());
  const at::Tensor before = rank.owned()[0].tensor.clone();
  writer.save(1, rank.owned(), {});
  for (const NamedTensor& t : rank.owned()) t.tensor.zero_();
  writer.finish();
  EXPECT_EQ(writer.last_step(), 1);
  EXPECT_EQ(writer.snapshot_bytes(), 0);
  EXPECT_TRUE(at::equal(CheckpointReader(folder_ / checkpoint_name(1)).tensor("embed.weight"), before));
}

// What the counting allocator sees while a save is under way is the copy: 12 bytes a parameter in float32 (value and two
// moments), 14 in bfloat16 (and the master). The second rank of the barrier never comes, so the save stays under way.
TEST_F(Checkpoint, HoldsACopyOfWhatTheRankOwns) {
  nn::install_counting_allocator();
  for (const auto& [dtype, bytes_each] : {std::pair{at::kFloat, 12}, std::pair{at::kBFloat16, 14}}) {
    RankPart rank = make_rank(small_model(), {}, 0, dtype);
    const std::vector<NamedTensor> owned = rank.owned();
    auto barrier = std::make_shared<InProcessCommitBarrier>(2);
    CheckpointWriter writer({.folder = folder_, .num_ranks = 2, .model = small_model()}, barrier);
    const std::int64_t before = nn::current_tensor_bytes();
    writer.save(1, owned, {});
    std::int64_t elements = 0, biases = 0;
    for (const auto& p : model::parameters(small_model())) elements += p.count();
    for (const NamedTensor& t : owned)
      if (t.name.ends_with("selection_bias")) biases += static_cast<std::int64_t>(t.tensor.nbytes());
    EXPECT_EQ(writer.snapshot_bytes(), bytes_each * elements + biases);
    EXPECT_EQ(nn::current_tensor_bytes() - before, writer.snapshot_bytes());
    EXPECT_EQ(writer.last_copy_bytes(), static_cast<double>(writer.snapshot_bytes()));
    barrier->cancel();
    EXPECT_THROW(writer.finish(), RuntimeFailure);
  }
}

TEST_F(Checkpoint, KeepsTheNewestKAndSkipsAStepSavedAlready) {
  RankPart rank = make_rank(small_model(), {}, 0);
  for (const bool asynchronous : {true, false}) {
    CheckpointWriter writer({.folder = folder_, .keep = {2}, .asynchronous = asynchronous, .model = small_model()},
                            std::make_shared<InProcessCommitBarrier>());
    for (const std::int64_t step : {10, 20, 30, 30}) writer.save(step, rank.owned(), {});
    writer.finish();
    const auto found = list_checkpoints(folder_);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].step, 20);
    EXPECT_EQ(found[1].step, 30);
  }
}

// A folder that isn't empty stands where the rank's file should go.
TEST_F(Checkpoint, AFailureLeavesTheEarlierOnesAndIsReportedOnce) {
  save_small(1);
  RankPart rank = make_rank(small_model(), {}, 0);
  CheckpointWriter writer({.folder = folder_, .model = small_model()}, std::make_shared<InProcessCommitBarrier>());
  fs::create_directories(unfinished_path(folder_, 2) / rank_file(0) / "in the way");
  writer.save(2, rank.owned(), {});
  try {
    writer.finish();
    FAIL() << "no error";
  } catch (const RuntimeFailure& error) {
    EXPECT_EQ(error.detail().rank, 0);
    EXPECT_THAT(error.detail().reason, HasSubstr("the checkpoint of step 2 was not written: "));
    EXPECT_THAT(error.detail().reason, HasSubstr("earlier checkpoints in " + folder_.string() + " are intact"));
  }
  EXPECT_TRUE(writer.failed());
  EXPECT_EQ(latest_checkpoint(folder_)->step, 1);
  EXPECT_FALSE(fs::exists(unfinished_path(folder_, 2)));
  EXPECT_EQ(CheckpointReader(latest_checkpoint(folder_)->path).step(), 1);
}

// As on a full disk, a write stops in the middle: here at a limit of 1,000 bytes a file, far below the rank's file.
TEST_F(Checkpoint, AWriteThatFailsHalfWayLeavesNothingBehind) {
  save_small(1);
  RankPart rank = make_rank(small_model(), {}, 0);
  CheckpointWriter writer({.folder = folder_, .model = small_model()}, std::make_shared<InProcessCommitBarrier>());
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    writer.save(2, rank.owned(), {});
    writer.finish();
  } catch (const RuntimeFailure& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, testing::AllOf(testing::StartsWith("rank 0: "), HasSubstr(" was not written: cannot write ")));
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "step 1 alone";
  EXPECT_EQ(CheckpointReader(latest_checkpoint(folder_)->path).step(), 1);
}

TEST_F(Checkpoint, OneRanksFailureIsEveryRanksFailure) {
  const plan::Mesh mesh{.pp = 2};
  std::vector<RankPart> ranks = make_ranks(small_model(), mesh);
  auto barrier = std::make_shared<InProcessCommitBarrier>(2);
  std::vector<std::unique_ptr<CheckpointWriter>> writers;
  for (int rank = 0; rank < 2; ++rank) {
    writers.push_back(std::make_unique<CheckpointWriter>(
        CheckpointWriterOptions{.folder = folder_, .rank = rank, .num_ranks = 2, .model = small_model()}, barrier));
  }
  fs::create_directories(unfinished_path(folder_, 5) / rank_file(1) / "in the way");
  std::string message;
  for_all_ranks(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    writers[r]->save(5, ranks[r].owned(), {});
    try {
      writers[r]->finish();
      ADD_FAILURE() << "no error on rank " << rank;
    } catch (const RuntimeFailure& error) {
      EXPECT_EQ(error.detail().rank, 1);
      if (rank == 0) message = error.what();
    }
  });
  EXPECT_EQ(latest_checkpoint(folder_), std::nullopt);
  EXPECT_THAT(message, testing::Not(HasSubstr("intact"))) << "there are no earlier ones";
}

TEST_F(Checkpoint, NeverCommitsOneThatCouldNotBeLoaded) {
  RankPart rank = make_rank(small_model(), {}, 0);
  CheckpointWriter writer({.folder = folder_, .asynchronous = false, .model = small_model()},
                          std::make_shared<InProcessCommitBarrier>());
  std::vector<NamedTensor> tensors = rank.owned();
  std::erase_if(tensors,
                [](const NamedTensor& t) { return t.name == "optimizer.exp_avg.layers.2.experts.3.up.weight"; });
  try {
    writer.save(1, tensors, {});
    FAIL() << "no error";
  } catch (const RuntimeFailure& error) {
    EXPECT_THAT(error.what(), HasSubstr("optimizer.exp_avg.layers.2.experts.3.up.weight is missing: no rank owns it"));
  }
  EXPECT_EQ(latest_checkpoint(folder_), std::nullopt);
}

// All ranks writing under the same local names is the bug (KempnerForge #202): two owners are refused.
TEST_F(Checkpoint, RefusesTwoOwnersOfOneTensor) {
  const plan::Mesh mesh{.dp = 2};
  std::vector<RankPart> ranks = make_ranks(small_model(), mesh);
  ranks[1].ownership.rank = 0;
  try {
    save(small_model(), ranks, 1);
    FAIL() << "no error";
  } catch (const RuntimeFailure& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("is in rank-00000.safetensors and in rank-00001.safetensors: it must have one owner"));
  }
}

TEST_F(Checkpoint, ANewWriterClearsWhatAnEarlierRunLeft) {
  fs::create_directories(unfinished_path(folder_, 3));
  CheckpointWriter writer({.folder = folder_, .model = small_model()}, std::make_shared<InProcessCommitBarrier>());
  EXPECT_FALSE(fs::exists(unfinished_path(folder_, 3)));
}

TEST_F(Checkpoint, RefusesAFolderThatIsNotOne) {
  expect_error([&] { CheckpointReader reader(scratch_.path()); }, (scratch_.path() / "index.json").string(), "",
               "not a complete checkpoint");
  std::ofstream(scratch_.path() / "index.json") << "{\"weight_map\": {}}";
  expect_error([&] { CheckpointReader reader(scratch_.path()); }, (scratch_.path() / "index.json").string(), "",
               "not the index of a Trireme checkpoint");
}

TEST_F(Checkpoint, NamesTheTruncatedFile) {
  const fs::path folder = save_small(1), file = folder / rank_file(0);
  fs::resize_file(file, fs::file_size(file) - 10);
  CheckpointReader reader(folder);
  RankPart rank = make_rank(small_model(), {}, 0);
  try {
    reader.load(rank.hosted());
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().file, file.string());
    EXPECT_THAT(error.what(), HasSubstr("truncated"));
  }
}

// One bit of the last tensor's data, which neither a header nor a shape would show.
TEST_F(Checkpoint, NamesDamagedData) {
  const fs::path folder = save_small(1), file = folder / rank_file(0);
  std::string name;
  {
    const SafetensorsFile opened(file);
    std::uint64_t end = 0;
    for (const auto& [key, entry] : opened.entries())
      if (entry.end > end) end = entry.end, name = key;
  }
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(-1, std::ios::end);
  const char last = static_cast<char>(bytes.get() ^ 0x10);
  bytes.seekp(-1, std::ios::end);
  bytes.put(last);
  bytes.close();
  const CheckpointReader reader(folder);
  RankPart rank = make_rank(small_model(), {}, 0);
  expect_error([&] { reader.load(rank.hosted()); }, file.string(), name, "remove step-00000001 to go on from");
  // Without checksums, as an older index is: read as it lies.
  CheckpointIndex index = read_index(folder / index_file);
  for (auto& [key, entry] : index.tensors) entry.xxh3.clear();
  std::ofstream(folder / index_file) << to_json_text(index);
  CheckpointReader(folder).load(rank.hosted());
}

// XXH3_64bits of the empty input, by the algorithm's published test vectors.
TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum(at::empty({0})), "2d06800538d394c2");
  EXPECT_NE(checksum(at::zeros({3})), checksum(at::zeros({4})));
  const at::Tensor turned = at::arange(6, at::kFloat).view({2, 3}).t();
  EXPECT_EQ(checksum(turned), checksum(turned.contiguous()));
}

TEST_F(Checkpoint, NamesAMissingFileAndAMissingTensor) {
  const fs::path folder = save_small(1), file = folder / rank_file(0);
  CheckpointReader reader(folder);
  expect_error(
      [&] {
        reader.load({{"layers.9.experts.0.up.weight", at::empty({1})}});
      },
      (folder / "index.json").string(), "layers.9.experts.0.up.weight", "not in the checkpoint");
  fs::remove(file);
  expect_error([&] { reader.tensor("embed.weight"); }, file.string(), "", "cannot be opened");
}

// As a run that goes on does it while another program reads: no input was bad.
TEST_F(Checkpoint, ThatIsRemovedWhileItIsReadIsAFailureOfTheMoment) {
  const fs::path folder = save_small(1);
  CheckpointReader reader(folder);
  fs::remove_all(folder);
  try {
    reader.tensor("embed.weight");
    ADD_FAILURE() << "read";
  } catch (const RuntimeFailure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("read " + folder.string()));
    EXPECT_THAT(failure.what(), HasSubstr("it was removed meanwhile"));
  }
}

TEST_F(Checkpoint, NamesATensorOfAnotherShapeOrType) {
  CheckpointReader reader(save_small(1));
  const std::string file = (reader.folder() / rank_file(0)).string();
  at::Tensor first = at::zeros({29, 8});
  expect_error(
      [&] {
        reader.load({{"embed.weight", first}, {"embed.weight", at::empty({28, 8})}});
      },
      file, "embed.weight", "is F32 (29, 8), and the run needs F32 (28, 8)");
  EXPECT_EQ(first.abs().sum().item<double>(), 0.0) << "nothing is written before all are checked";
  expect_error(
      [&] {
        reader.load({{"embed.weight", at::empty({29, 8}, at::kDouble)}});
      },
      file, "embed.weight", "is F32 (29, 8), and the run needs F64 (29, 8)");
}

TEST_F(Checkpoint, NamesTheModelKeyThatDiffers) {
  CheckpointReader reader(save_small(1));
  model::ModelSpec other = small_model();
  other.moe.router.aux_loss_coefficient = 0.5;  // may change between runs
  other.name = "renamed";
  reader.check_model(other);
  other.moe.num_experts = 8;
  expect_error([&] { reader.check_model(other); }, (reader.folder() / "model.toml").string(), "model.moe.num_experts",
               "the run's model has 8");
}

// Whatever gives other outputs for the same weights: one key of each part, and all that differ are told.
TEST_F(Checkpoint, NamesEveryModelKeyThatChangesTheFunction) {
  const CheckpointReader reader(save_small(1));
  const auto message = [&](const std::function<void(model::ModelSpec&)>& change) {
    model::ModelSpec other = small_model();
    change(other);
    try {
      reader.check_model(other);
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message([](auto&) {}), "no error");
  EXPECT_THAT(message([](auto& m) { m.moe.router.group_by_maximum = true; }), HasSubstr("model.moe.router.group_by_maximum"));
  EXPECT_THAT(message([](auto& m) { m.moe.router.scores_input = true; }), HasSubstr("model.moe.router.scores_input"));
  EXPECT_THAT(message([](auto& m) { m.activation = model::Activation::gelu; }), HasSubstr("model.activation"));
  EXPECT_THAT(message([](auto& m) { m.attention.window = 4; }), HasSubstr("model.attention.window"));
  EXPECT_THAT(message([](auto& m) { m.attention.rope_fraction = 0.5; }), HasSubstr("model.attention.rope_fraction"));
  const std::string both = message([](auto& m) { m.moe.router.scale = 2.5, m.norm_eps = 1e-5; });
  EXPECT_THAT(both, HasSubstr("model.norm_eps = 1e-06: the run's model has 1e-05 (also model.moe.router.scale = 1 against 2.5)"));
}

TEST_F(Checkpoint, OpenWeightsTakesARunsFolderOrItsCheckpoints) {
  save_small(1);
  save_small(2);
  const auto source = open_weights(folder_);
  EXPECT_EQ(dynamic_cast<const CheckpointReader&>(*source).step(), 2);
  EXPECT_EQ(dynamic_cast<const CheckpointReader&>(*open_weights(folder_.parent_path())).step(), 2);
  const fs::path empty = folder_.parent_path() / "empty";
  fs::create_directories(empty);
  expect_error([&] { open_weights(empty, {.key = "checkpoint.initial"}); }, "", "checkpoint.initial", "Hugging Face folder");
}

}  // namespace
}  // namespace trireme::train
