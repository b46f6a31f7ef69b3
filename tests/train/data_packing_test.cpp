#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "train/data/packing.h"
#include "train/data/evaluation_data.h"
#include "train/data/training_data.h"
#include "train/data_fixture.h"

namespace trireme::train {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class Packing : public DataTest {
 protected:
  std::shared_ptr<const TokenReader> open(const std::vector<std::vector<std::int32_t>>& documents) {
    return std::make_shared<const TokenReader>(write_tokens("t", documents));
  }
};

// Stream of the file: 1 2 9 | 3 9 | 4 5 6 9 7 9 | 8 (12 tokens); S = 5: windows [1 2 9 3 9 (4)], [4 5 6 9 7 (9)],
// (12 - 1) / 5 = 2. In the file's order documents are 0, 1, 2, 3.
TEST_F(Packing, EvaluationCutsTheFileInOrder) {
  const auto source = evaluation_source(open({{1, 2, 9}, {3, 9}, {4, 5, 6, 9, 7, 9}, {8}}), {.sequence_length = 5}, 10);
  EXPECT_EQ(source->num_sequences(), 2);
  const auto first = read_sequence(*source, 0);
  EXPECT_THAT(first.tokens, ElementsAre(1, 2, 9, 3, 9));
  EXPECT_THAT(first.targets, ElementsAre(2, 9, 3, 9, 4));
  EXPECT_THAT(first.weights, ElementsAre(1, 1, 0, 1, 0));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(first.documents, ElementsAre(0, 0, 0, 1, 1));
  const auto second = read_sequence(*source, 1);
  EXPECT_THAT(second.tokens, ElementsAre(4, 5, 6, 9, 7));
  EXPECT_THAT(second.targets, ElementsAre(5, 6, 9, 7, 9));
  EXPECT_THAT(second.weights, ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(second.positions, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(second.documents, ElementsAre(0, 0, 0, 0, 0));
}

TEST_F(Packing, WithoutResetOneDocumentFillsTheSequence) {
  const auto source =
      evaluation_source(open({{1, 2, 9}, {3, 9}, {4, 5}}), {.sequence_length = 5, .reset_at_documents = false}, 10);
  const auto first = read_sequence(*source, 0);
  EXPECT_THAT(first.targets, ElementsAre(2, 9, 3, 9, 4));
  EXPECT_THAT(first.weights, Each(1));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(first.documents, Each(0));
}

TEST_F(Packing, NumbersBehindTheLastEvaluationSequenceArePadding) {
  const auto tokens = open({{1, 2, 9}, {3, 9}, {4, 5, 6, 9, 7, 9}, {8}});
  const auto source = evaluation_source(tokens, {.sequence_length = 5}, 1);
  EXPECT_EQ(source->num_sequences(), 1);
  for (std::int64_t number : {1, 2, 100}) {
    const auto padding = read_sequence(*source, number);
    EXPECT_THAT(padding.tokens, Each(0));
    EXPECT_THAT(padding.targets, Each(0));
    EXPECT_THAT(padding.weights, Each(0));
    EXPECT_THAT(padding.documents, Each(-1));
    EXPECT_THAT(padding.positions, ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST_F(Packing, EmptyDocumentsAreSkipped) {
  const auto source = evaluation_source(open({{}, {1, 2}, {}, {}, {3, 4}, {}}), {.sequence_length = 3}, 10);
  const auto first = read_sequence(*source, 0);
  EXPECT_THAT(first.tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(first.weights, ElementsAre(1, 0, 1));
  EXPECT_THAT(first.documents, ElementsAre(0, 0, 1));
}

TEST_F(Packing, TooShortAFileIsAClearError) {
  const std::string prefix = write_tokens("t", {{1, 2, 3, 4}});
  const auto tokens = std::make_shared<const TokenReader>(prefix, DataOrigin{.file = "run.toml", .key = "data.train"});
  EXPECT_EQ(training_source(tokens, {.sequence_length = 3})->num_sequences(), 1);
  EXPECT_EQ(config_error_of([&] { training_source(tokens, {.sequence_length = 4}); }),
            "run.toml: data.train = " + prefix + ": holds 4 tokens: one sequence takes batch.sequence_length + 1 = 5");
}

// Documents of distinct tokens: every token tells its document and place.
std::vector<std::vector<std::int32_t>> distinct_documents(int count) {
  std::vector<std::vector<std::int32_t>> out;
  std::int32_t next = 0;
  for (int d = 0; d < count; ++d) {
    std::vector<std::int32_t> document(static_cast<std::size_t>(1 + (d * 7) % 13));
    for (auto& token : document) token = next++;
    out.push_back(document);
  }
  return out;
}

TEST_F(Packing, AnEpochVisitsEveryWindowOnceAndDocumentsStayWhole) {
  const auto tokens = open(distinct_documents(60));
  const std::int64_t length = 8;
  const auto source = training_source(tokens, {.sequence_length = length, .seed = 3});
  const std::int64_t windows = source->num_sequences();
  ASSERT_EQ(windows, (tokens->num_tokens() - 1) / length);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> seen;
    for (std::int64_t w = 0; w < windows; ++w) {
      const auto s = read_sequence(*source, epoch * windows + w);
      for (std::size_t i = 0; i < s.tokens.size(); ++i) {
        EXPECT_TRUE(seen.insert(s.tokens[i]).second) << "token " << s.tokens[i] << " twice in epoch " << epoch;
        // Within a document the target is the next token; with distinct tokens that is the next number.
        if (s.weights[i] == 1) {
          EXPECT_EQ(s.targets[i], s.tokens[i] + 1);
        }
        if (i + 1 < s.tokens.size()) {
          EXPECT_EQ(s.targets[i], s.tokens[i + 1]);
        }
        EXPECT_EQ(s.positions[i] == 0, i == 0 || s.documents[i] != s.documents[i - 1]);
      }
    }
    // All but the tail, which is shorter than a window.
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), windows * length);
  }
}

TEST_F(Packing, EveryDocumentEndHasWeightZeroAndNothingElse) {
  const auto documents = distinct_documents(60);
  std::set<std::int64_t> ends;
  for (const auto& d : documents) ends.insert(d.back());
  const auto source = training_source(open(documents), {.sequence_length = 8, .seed = 3});
  for (std::int64_t n = 0; n < source->num_sequences(); ++n) {
    const auto s = read_sequence(*source, n);
    for (std::size_t i = 0; i < s.tokens.size(); ++i) EXPECT_EQ(s.weights[i], ends.contains(s.tokens[i]) ? 0.0f : 1.0f);
  }
}

TEST_F(Packing, TheOrderDependsOnSeedAndEpochOnly) {
  const auto tokens = open(distinct_documents(60));
  const PackingOptions options{.sequence_length = 8, .seed = 3};
  const auto source = training_source(tokens, options);
  const std::int64_t windows = source->num_sequences();
  // Read backwards by a fresh source, as a resumed run would jump in: the same.
  const auto fresh = training_source(tokens, options);
  for (std::int64_t n = 2 * windows - 1; n >= 0; n -= 5)
    EXPECT_EQ(read_sequence(*fresh, n), read_sequence(*source, n)) << n;

  const auto other = training_source(tokens, {.sequence_length = 8, .seed = 4});
  int same_seed = 0, same_epoch = 0;
  for (std::int64_t n = 0; n < windows; ++n) {
    same_seed += read_sequence(*other, n) == read_sequence(*source, n);
    same_epoch += read_sequence(*source, windows + n) == read_sequence(*source, n);
  }
  EXPECT_LT(same_seed, windows / 4);
  EXPECT_LT(same_epoch, windows / 4);
}

TEST(FirstSequence, EveryLayoutCoversTheGlobalBatchOnce) {
  const plan::BatchSpec batch{.sequence_length = 8, .micro_batch = 2, .global_batch = 24};
  for (int dp : {1, 2, 3, 4, 6, 12}) {
    std::set<std::int64_t> seen;
    for (int rank = 0; rank < dp; ++rank)
      for (std::int64_t mb = 0; mb < batch.num_micro_batches(dp); ++mb)
        for (std::int64_t i = 0; i < batch.micro_batch; ++i)
          EXPECT_TRUE(seen.insert(first_sequence(batch, dp, 5 * 24, rank, mb) + i).second);
    EXPECT_EQ(seen.size(), 24u);
    EXPECT_EQ(*seen.begin(), 5 * 24);
    EXPECT_EQ(*seen.rbegin(), 5 * 24 + 23);
  }
  // Contiguous for a rank: rank 1 of 3 has sequences 8..15 of the step's 24.
  EXPECT_EQ(first_sequence(batch, 3, 0, 1, 0), 8);
  EXPECT_EQ(first_sequence(batch, 3, 0, 1, 3), 14);
}

TEST(RandomSource, IsUniformAndKeyedByTheNumber) {
  const auto source = random_source(7, 1000, 3);
  const auto a = read_sequence(*source, 5);
  EXPECT_EQ(a, read_sequence(*random_source(7, 1000, 3), 5));
  EXPECT_NE(a, read_sequence(*source, 6));
  EXPECT_NE(a, read_sequence(*random_source(7, 1000, 4), 5));
  EXPECT_TRUE(std::equal(a.tokens.begin() + 1, a.tokens.end(), a.targets.begin()));
  std::map<std::int64_t, int> counts;
  for (auto t : a.tokens) ++counts[t];
  // 1,000 draws of 7: mean 143, standard deviation sqrt(1000 * 1/7 * 6/7) = 11.
  EXPECT_EQ(counts.size(), 7u);
  for (const auto& [token, count] : counts) EXPECT_NEAR(count, 143, 55) << token;
  EXPECT_THAT(read_sequence(*random_source(7, 10, 3, 4), 4).documents, Each(-1));
}

TEST_F(Packing, OpensWhatTheRunNames) {
  plan::RunSpec run;
  run.file = "run.toml";
  run.model.vocab_size = 100;
  run.batch.sequence_length = 3;
  run.data.train = {{.prefix = write_tokens("train", {{1, 2, 3, 99}})}};
  run.data.valid = {{.prefix = write_tokens("valid", {{1, 2, 3, 100}})}};
  EXPECT_EQ(open_training(run)->num_sequences(), 1);
  EXPECT_TRUE(open_evaluation(run).empty());
  run.train.eval_sequences = 1;
  EXPECT_EQ(
      config_error_of([&] { open_evaluation(run); }),
      "run.toml: data.valid = " + run.data.valid[0].prefix + ": holds token 100: model.vocab_size (100) must be at least 101");
  run.data.train.clear();
  EXPECT_EQ(config_error_of([&] { open_training(run); }),
            "run.toml: data.train: is missing: the prefix of a .bin/.idx pair is needed (or \"random\")");
  run.data.train = run.data.valid = {{.prefix = "random"}};
  EXPECT_NE(read_sequence(*open_training(run), 0), read_sequence(*open_evaluation(run).at(0).source, 0));
}

}  // namespace
}  // namespace trireme::train
