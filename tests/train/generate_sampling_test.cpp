#include "train/generate/sampling.h"

#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"

namespace trireme::train {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Logits whose probabilities are 0.1, 0.4, 0.2, 0.3.
const std::vector<float> four = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};

auto candidate(std::int32_t token, double probability) {
  return testing::AllOf(testing::Field(&Candidate::token, token),
                        testing::Field(&Candidate::probability, DoubleNear(probability, 1e-6)));
}

TEST(Sampling, PlainProbabilitiesAreTheSoftmax) {
  EXPECT_THAT(candidates(four, {}),
              ElementsAre(candidate(1, 0.4), candidate(3, 0.3), candidate(2, 0.2), candidate(0, 0.1)));
}

// At temperature 1/2 probabilities are squared: 16, 9, 4, 1 of 30; at 2 their roots.
TEST(Sampling, TemperatureIsAPower) {
  EXPECT_THAT(candidates(four, {.temperature = 0.5}),
              ElementsAre(candidate(1, 16 / 30.), candidate(3, 9 / 30.), candidate(2, 4 / 30.), candidate(0, 1 / 30.)));
  const double sum = std::sqrt(0.1) + std::sqrt(0.2) + std::sqrt(0.3) + std::sqrt(0.4);
  EXPECT_THAT(candidates(four, {.temperature = 2})[0], candidate(1, std::sqrt(0.4) / sum));
  EXPECT_THAT(candidates(four, {.temperature = 0}), ElementsAre(candidate(1, 1)));
  // So small that all others' weights are zero in double.
  EXPECT_EQ(candidates(four, {.temperature = 1e-30})[0].probability, 1.0);
}

TEST(Sampling, TopKKeepsTheLikeliest) {
  EXPECT_THAT(candidates(four, {.top_k = 2}), ElementsAre(candidate(1, 4 / 7.), candidate(3, 3 / 7.)));
  EXPECT_EQ(candidates(four, {.top_k = 4}).size(), 4u);
  EXPECT_EQ(candidates(four, {.top_k = 9}).size(), 4u);
}

// 0.4 reaches 0.35 alone and 0.4 + 0.3 are the first to reach 0.65: the token that crosses p is in. p = 0.75 needs
// three.
TEST(Sampling, TheNucleusHasTheTokenThatCrosses) {
  EXPECT_THAT(candidates(four, {.top_p = 0.35}), ElementsAre(candidate(1, 1)));
  EXPECT_THAT(candidates(four, {.top_p = 0.65}), ElementsAre(candidate(1, 4 / 7.), candidate(3, 3 / 7.)));
  EXPECT_EQ(candidates(four, {.top_p = 0.75}).size(), 3u);
  EXPECT_EQ(candidates(four, {.top_p = 1e-9}).size(), 1u);
  // Of the two that top_k keeps (4/7 and 3/7), 4/7 reaches 0.5 alone.
  EXPECT_THAT(candidates(four, {.top_k = 2, .top_p = 0.5}), ElementsAre(candidate(1, 1)));
}

TEST(Sampling, EqualLogitsGoByTheLowerToken) {
  const std::vector<float> equal(5, 1.5f);
  EXPECT_THAT(candidates(equal, {.temperature = 0}), ElementsAre(candidate(0, 1)));
  EXPECT_THAT(candidates(equal, {.top_k = 2}), ElementsAre(candidate(0, 0.5), candidate(1, 0.5)));
}

// The likeliest has [0, 0.4), the next [0.4, 0.7), then 0.9, then 1.
TEST(Sampling, ChoosesByTheCumulatedProbability) {
  EXPECT_EQ(choose(four, {}, 0.0), 1);
  EXPECT_EQ(choose(four, {}, 0.39), 1);
  EXPECT_EQ(choose(four, {}, 0.41), 3);
  EXPECT_EQ(choose(four, {}, 0.71), 2);
  EXPECT_EQ(choose(four, {}, 0.91), 0);
  EXPECT_EQ(choose(four, {}, std::nextafter(1.0, 0.0)), 0);
  EXPECT_EQ(choose(four, {.temperature = 1e-30}, std::nextafter(1.0, 0.0)), 1) << "never one of probability zero";
}

// 20,000 draws: a frequency's standard deviation is at most sqrt(0.25 / 20000) = 0.0035; four of them.
TEST(Sampling, FrequenciesAreTheProbabilities) {
  constexpr int draws = 20000;
  std::map<std::int32_t, int> count;
  for (int i = 0; i < draws; ++i) ++count[choose(four, {}, uniform_for(11, i % 7, i % 3, i))];
  const std::vector<double> expected = {0.1, 0.4, 0.2, 0.3};
  for (int t = 0; t < 4; ++t) EXPECT_NEAR(count[t] / double(draws), expected[static_cast<std::size_t>(t)], 0.014) << t;
}

TEST(Sampling, NumbersDependOnSeedPromptSampleAndPosition) {
  EXPECT_EQ(uniform_for(1, 2, 3, 4), uniform_for(1, 2, 3, 4));
  const std::set<double> different = {uniform_for(1, 2, 3, 4), uniform_for(2, 2, 3, 4), uniform_for(1, 3, 2, 4),
                                      uniform_for(1, 2, 4, 3), uniform_for(1, 2, 3, 5), uniform_for(1, 23, 0, 4)};
  EXPECT_EQ(different.size(), 6u);
}

TEST(Sampling, RefusesWhatMeansNothing) {
  const auto key_of = [](const Sampling& s) {
    try {
      check(s);
    } catch (const ConfigError& error) {
      return error.detail().key;
    }
    return std::string();
  };
  EXPECT_EQ(key_of({}), "");
  EXPECT_EQ(key_of({.temperature = -1}), "--temperature");
  EXPECT_EQ(key_of({.temperature = std::nan("")}), "--temperature");
  EXPECT_EQ(key_of({.temperature = INFINITY}), "--temperature");
  EXPECT_EQ(key_of({.top_k = -1}), "--top-k");
  EXPECT_EQ(key_of({.top_p = 0}), "--top-p");
  EXPECT_EQ(key_of({.top_p = 1.01}), "--top-p");
  EXPECT_EQ(key_of({.top_p = std::nan("")}), "--top-p");
}

}  // namespace
}  // namespace trireme::train
