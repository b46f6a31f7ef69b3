#include "train/generate/trained_model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/errors.h"
#include "nn/single_device.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint_fixture.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class TrainedModelTest : public testing::Test {
 protected:
  ScratchFolder scratch_;
  fs::path run_ = scratch_.path() / "run";

  // A run's checkpoints with the evaluation losses that they know (negative: none).
  void save(const std::vector<std::pair<std::int64_t, double>>& losses, const model::ModelSpec& spec = small_model()) {
    RankPart rank = make_rank(spec, {}, 0);
    rank.model->initialise(3);
    fill_by_name(rank.owned());
    CheckpointWriter writer({.folder = run_ / "checkpoints", .keep = {10}, .asynchronous = false, .model = spec},
                            std::make_shared<InProcessCommitBarrier>());
    for (const auto& [step, loss] : losses) {
      nlohmann::json state = nlohmann::json::object();
      if (loss >= 0) state["eval_loss"] = loss;
      writer.save(step, rank.owned(), state);
    }
  }

  std::string error_of(const CheckpointChoice& choice, const fs::path& path) {
    try {
      find_trained_model(path, choice);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  }
};

TEST_F(TrainedModelTest, TheNewestTheNamedAndTheBestCheckpoint) {
  save({{10, 3.0}, {20, 2.5}, {30, 2.5}, {40, -1}, {50, 2.75}});
  const fs::path checkpoints = run_ / "checkpoints";
  EXPECT_EQ(find_trained_model(checkpoints).step, 50);
  EXPECT_EQ(find_trained_model(checkpoints, {.step = 30}).step, 30);
  EXPECT_EQ(find_trained_model(checkpoints, {.best = true}).step, 20) << "the earlier of equals";
  EXPECT_EQ(find_trained_model(checkpoints, {.best = true}).weights, checkpoints / checkpoint_name(20));
  EXPECT_THAT(error_of({.step = 31}, checkpoints), HasSubstr("10, 20, 30, 40, 50"));
  EXPECT_THAT(error_of({.best = true}, checkpoints / checkpoint_name(20)), HasSubstr("is one checkpoint"));
}

TEST_F(TrainedModelTest, NoCheckpointKnowsItsLoss) {
  save({{10, -1}});
  EXPECT_THAT(error_of({.best = true}, run_ / "checkpoints"), HasSubstr("train.eval_every"));
  EXPECT_THAT(error_of({}, run_ / "none"), HasSubstr("no such folder"));
}

// Whole, and in the part of a rank: values and selection biases are the checkpoint's.
TEST_F(TrainedModelTest, LoadsWhatIsHosted) {
  save({{10, -1}});
  const auto source = open_weights(run_ / "checkpoints");
  const model::ModelSpec spec = small_model();
  const nn::Hosted part{.layers = {.first_layer = 2, .num_layers = 2, .head = true}, .experts = {2, 3}};
  for (const nn::Hosted& hosted : {nn::whole_model(spec), part}) {
    const auto model = load_model(*source, hosted, {});
    for (const nn::Parameter* parameter : model->parameters())
      for (const nn::Piece& piece : parameter->pieces)
        EXPECT_TRUE(at::equal(parameter->piece_value(piece), source->read(piece.spec))) << piece.spec.name;
    for (int layer = std::max(1, hosted.layers.first_layer); layer < 4; ++layer) {
      EXPECT_TRUE(at::equal(model->selection_bias(layer), source->selection_bias(layer))) << layer;
      EXPECT_GT(model->selection_bias(layer).abs().sum().item<double>(), 0);
    }
  }
}

// Bytes without a word only where the vocabulary is exactly theirs: 259.
TEST_F(TrainedModelTest, BytesOnlyWhereTheVocabularyIsTheirs) {
  model::ModelSpec spec = small_model();
  spec.vocab_size = 259;
  const PromptTokens bytes = find_tokenizer({}, spec, "", "");
  EXPECT_EQ(bytes.tokenizer->name(), "byte");
  EXPECT_TRUE(bytes.begin.empty());
  EXPECT_EQ(bytes.nothing, std::vector<std::int32_t>{256});
  spec.vocab_size = 264;
  EXPECT_THROW(find_tokenizer({}, spec, "", ""), ConfigError);
  EXPECT_EQ(find_tokenizer({}, spec, "byte", "").tokenizer->vocab_size(), 259);
  spec.vocab_size = 258;
  EXPECT_THROW(find_tokenizer({}, spec, "byte", ""), ConfigError);
}

TEST_F(TrainedModelTest, AHuggingFaceFolderSaysItsLengthAndEnds) {
  fs::create_directories(run_);
  std::ofstream(run_ / "config.json") << R"({"max_position_embeddings": 4096, "eos_token_id": 2})";
  TrainedModel found = find_trained_model(run_);
  EXPECT_TRUE(found.hugging_face);
  EXPECT_EQ(found.trained_length, 4096);
  EXPECT_EQ(found.end_tokens, std::vector<std::int32_t>{2});
  std::ofstream(run_ / "generation_config.json") << R"({"eos_token_id": [7, 9]})";
  EXPECT_EQ(find_trained_model(run_).end_tokens, (std::vector<std::int32_t>{7, 9}));
}

}  // namespace
}  // namespace trireme::train
