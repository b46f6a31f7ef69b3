#include <gmock/gmock.h>

#include <cstring>
#include <limits>

#include "train/data/packing.h"
#include "train/data/training_data.h"
#include "train/data_fixture.h"

namespace trireme::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Weights : public DataTest {
 protected:
  void write_weights(const std::string& prefix, const std::vector<float>& weights) {
    std::string bytes(weights.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), weights.data(), bytes.size());
    write_file(prefix + ".weights", bytes);
  }
  std::shared_ptr<const LossWeights> open(const std::string& prefix) { return LossWeights::open(TokenReader(prefix)); }
};

// 1 2 9 | 3 9 | 4 5, one window of 6: target i is token i + 1 and has its weight, but the one behind a document's end.
TEST_F(Weights, ATargetHasItsTokensWeight) {
  const std::string prefix = write_tokens("t", {{1, 2, 9}, {3, 9}, {4, 5}});
  write_weights(prefix, {1, 0.5, 0, 2, 3, 4, 0.25});
  const auto tokens = std::make_shared<const TokenReader>(prefix);
  PackingOptions options{.sequence_length = 6, .weights = LossWeights::open(*tokens)};
  const auto s = read_sequence(*evaluation_source(tokens, options, 1), 0);
  EXPECT_THAT(s.targets, ElementsAre(2, 9, 3, 9, 4, 5));
  EXPECT_THAT(s.weights, ElementsAre(0.5, 0, 0, 3, 0, 0.25));
  options.reset_at_documents = false;
  EXPECT_THAT(read_sequence(*evaluation_source(tokens, options, 1), 0).weights, ElementsAre(0.5, 0, 2, 3, 4, 0.25));
}

// In every epoch's order a token keeps its weight: here a hundredth of itself.
TEST_F(Weights, FollowTheirTokensThroughTheEpochs) {
  std::vector<std::vector<std::int32_t>> documents;
  std::vector<float> weights;
  for (std::int32_t token = 0; token < 300; ++token) {
    if (token % 7 == 0) documents.emplace_back();
    documents.back().push_back(token);
    weights.push_back(static_cast<float>(token) / 100);
  }
  const std::string prefix = write_tokens("t", documents);
  write_weights(prefix, weights);
  plan::RunSpec run;
  run.model.vocab_size = 300;
  run.batch.sequence_length = 5;
  run.data.train = {{.prefix = prefix}};
  const auto data = open_training(run);
  for (std::int64_t n = 0; n < 3 * data->num_sequences(); ++n) {
    const auto s = read_sequence(*data, n);
    for (std::size_t i = 0; i < s.tokens.size(); ++i) {
      const bool ends = s.targets[i] != s.tokens[i] + 1 || s.targets[i] % 7 == 0;
      EXPECT_EQ(s.weights[i], ends ? 0.0f : static_cast<float>(s.targets[i]) / 100);
    }
  }
}

TEST_F(Weights, WithoutAFileEveryTargetCountsOne) {
  EXPECT_EQ(open(write_tokens("t", {{1, 2, 3}})), nullptr);
}

TEST_F(Weights, AWrongFileIsAClearError) {
  const std::string prefix = write_tokens("t", {{1, 2, 3}});
  write_weights(prefix, {1, 1});
  EXPECT_EQ(config_error_of([&] { open(prefix); }),
            prefix + ".weights: has 8 bytes, and 3 tokens take 12: a float32 each");
  write_weights(prefix, {1, -1, 1});
  EXPECT_EQ(config_error_of([&] { open(prefix); }),
            prefix + ".weights: token 1 = -1: must be a finite weight of at least 0");
  write_weights(prefix, {1, 1, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_THAT(config_error_of([&] { open(prefix); }), HasSubstr("token 2 = nan"));
  std::filesystem::remove(prefix + ".weights");
  write_file(prefix + ".meta.json", R"({"weights": true})");
  EXPECT_THAT(config_error_of([&] { open(prefix); }), HasSubstr(".weights: is missing"));
}

// Other weights are other data: a resumed run notices.
TEST_F(Weights, AreInTheFingerprint) {
  plan::RunSpec run;
  run.model.vocab_size = 10;
  const std::string prefix = write_tokens("t", {{1, 2, 3}});
  const std::string without = fingerprint(open_set(run, "data.train", {.prefix = prefix}));
  write_weights(prefix, {1, 1, 0});
  const std::string with = fingerprint(open_set(run, "data.train", {.prefix = prefix}));
  write_weights(prefix, {1, 0, 1});
  EXPECT_NE(without, with);
  EXPECT_NE(with, fingerprint(open_set(run, "data.train", {.prefix = prefix})));
}

}  // namespace
}  // namespace trireme::train
