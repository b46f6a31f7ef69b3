#include "train/data/bigram.h"

#include <cmath>

#include "train/data_fixture.h"

namespace trireme::train {
namespace {

class Bigram : public DataTest {
 protected:
  std::shared_ptr<const TokenReader> open(const std::vector<std::vector<std::int32_t>>& documents) {
    return std::make_shared<const TokenReader>(write_tokens("t", documents));
  }
};

// Documents 0 1 0 1 1 2 | 2 0, vocabulary 4. N = 8: c(0) = 3, c(1) = 3, c(2) = 2, c(3) = 0; unigram P = (c + 1) / 12:
// 4/12, 4/12, 3/12, 1/12. Pairs within documents: 01 10 01 11 12 | 20. So c(0,.) = 2 with T = 1 successor (1);
// c(1,.) = 3 with T = 3 (0, 1, 2); c(2,.) = 1 with T = 1 (0); c(3,.) = 0.
TEST_F(Bigram, WittenBellByHand) {
  const BigramModel model(*open({{0, 1, 0, 1, 1, 2}, {2, 0}}), 4, true);
  EXPECT_DOUBLE_EQ(model.log_probability(0, 1), std::log((2 + 1 * 4.0 / 12) / (2 + 1)));
  EXPECT_DOUBLE_EQ(model.log_probability(0, 3), std::log((0 + 1 * 1.0 / 12) / (2 + 1)));
  EXPECT_DOUBLE_EQ(model.log_probability(1, 2), std::log((1 + 3 * 3.0 / 12) / (3 + 3)));
  EXPECT_DOUBLE_EQ(model.log_probability(2, 0), std::log((1 + 1 * 4.0 / 12) / (1 + 1)));
  EXPECT_DOUBLE_EQ(model.log_probability(3, 1), std::log(4.0 / 12));  // never followed: the unigram
}

TEST_F(Bigram, WithoutResetPairsCrossDocuments) {
  const BigramModel model(*open({{0, 1}, {2, 0}}), 3, false);
  // Pairs 01 12 20; unigram (c + 1) / 7: 3/7, 2/7, 2/7.
  EXPECT_DOUBLE_EQ(model.log_probability(1, 2), std::log((1 + 2.0 / 7) / 2));
}

TEST_F(Bigram, ProbabilitiesSumToOneInBothRepresentations) {
  std::vector<std::int32_t> document;
  for (int i = 0; i < 3000; ++i) document.push_back((i * i + i / 7) % 37);
  const auto tokens = open({document});
  for (std::int64_t vocab : {40, 5000}) {  // 5,000 is above the dense table's limit
    const BigramModel model(*tokens, vocab, true);
    for (std::int64_t previous : {0, 7, 36, 39}) {
      double sum = 0;
      for (std::int64_t next = 0; next < vocab; ++next) sum += std::exp(model.log_probability(previous, next));
      EXPECT_NEAR(sum, 1.0, 1e-12) << "vocab " << vocab << ", after " << previous;
    }
  }
}

TEST_F(Bigram, CrossEntropyWeighsTargetsAsEvaluationDoes) {
  const auto tokens = open({{0, 1, 0, 1, 1, 2}, {2, 0}});
  const BigramModel model(*tokens, 4, true);
  // One window of 7 + 1 tokens: pairs 01 10 01 11 12 (22: across documents, weight 0) 20.
  const auto source = evaluation_source(tokens, {.sequence_length = 7}, 5);
  const auto p = [&](int a, int b) { return model.log_probability(a, b); };
  const double sum = p(0, 1) + p(1, 0) + p(0, 1) + p(1, 1) + p(1, 2) + p(2, 0);
  const CrossEntropy result = cross_entropy(model, *source, 3);  // two of them padding
  EXPECT_EQ(result.num_targets, 6);
  EXPECT_NEAR(result.nats_per_token, -sum / 6, 1e-14);
}

}  // namespace
}  // namespace trireme::train
