#include "train/guard/loss_spikes.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/rng.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

// The steps (from 1) whose loss is a spike, where each loss that is none is accepted.
std::vector<int> spikes(LossSpikes detector, const std::vector<double>& losses) {
  std::vector<int> out;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (!detector.why_spike(losses[i]).empty())
      out.push_back(static_cast<int>(i) + 1);
    else
      detector.accept(losses[i]);
  }
  return out;
}

std::vector<double> repeated(double loss, int times) { return std::vector<double>(static_cast<std::size_t>(times), loss); }

// A curve of the shape of a run's: ln V, falling by a power of the step to a floor, with noise of so many parts of the loss.
std::vector<double> curve(double vocabulary, double floor, int warmup, double noise, std::uint64_t seed, int steps) {
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) {
    std::vector<float> normal(1);
    random_normal(stream_key(seed, "noise"), static_cast<std::uint64_t>(i), normal, 0.0, 1.0);
    const double decay = std::pow(1 + std::max(0, i - warmup) / 20.0, -0.7);
    out.push_back((floor + (std::log(vocabulary) - floor) * decay) * (1 + noise * normal[0]));
  }
  return out;
}

TEST(LossSpikes, NoFalseAlarmOnOrdinaryRuns) {
  // Batches of a few sequences vary by some hundredths of the loss, tiny ones by a fifth; a warm-up starts flat.
  for (const double vocabulary : {264.0, 50257.0})
    for (const int warmup : {0, 20, 200})
      for (const double noise : {0.02, 0.1, 0.2})
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
          const auto losses = curve(vocabulary, 1.3, warmup, noise, seed, 600);
          EXPECT_TRUE(spikes({{}, static_cast<std::int64_t>(vocabulary)}, losses).empty()) << noise << " " << seed;
        }
}

// Losses of a small byte-level model on English text, every fifth of 150 steps.
TEST(LossSpikes, NoFalseAlarmOnARealCurve) {
  const std::vector<double> losses = {5.37, 4.95, 4.19, 3.51, 3.15, 3.03, 2.93, 3.01, 2.89, 2.67, 2.83, 2.72, 2.56, 2.61, 2.49,
                                      2.48, 2.56, 2.54, 2.55, 2.56, 2.42, 2.59, 2.63, 2.42, 2.27, 2.48, 2.4,  2.27, 2.36, 2.36};
  EXPECT_TRUE(spikes({{.window = 10}, 264}, losses).empty());
  EXPECT_TRUE(spikes({{.factor = 1.3, .window = 10}, 264}, losses).empty());
}

// A text learnt by heart has losses near 0 that differ by factors of ten: they are held against ln(264) / 10 = 0.5576.
TEST(LossSpikes, NoFalseAlarmNearZero) {
  std::vector<double> losses = repeated(0.01, 60);
  losses.insert(losses.end(), {0.2, 0.02, 1.67, 0.01});  // 3 x 0.5576 = 1.673
  EXPECT_THAT(spikes({{}, 264}, losses), testing::IsEmpty());
  losses.push_back(1.68);
  EXPECT_THAT(spikes({{}, 264}, losses), testing::ElementsAre(65));
}

// Measured with a learning rate of 50: 3,045,292 at the fourth step. ln 264 = 5.576, times 3 is 16.7.
TEST(LossSpikes, ALossThatExplodesAtTheStartIsOne) {
  EXPECT_THAT(spikes({{}, 264}, {5.6, 16.7, 16.8, 3045292}), testing::ElementsAre(3, 4));
  LossSpikes detector({}, 264);
  detector.accept(5.6);
  EXPECT_EQ(detector.why_spike(3045292), "the loss is 3.04529e+06, more than 3 times 5.6, the run's first loss");
  LossSpikes low({}, 264);
  low.accept(2);
  EXPECT_EQ(low.why_spike(17), "the loss is 17, more than 3 times 5.576, the loss of equal guesses, ln(vocab_size)");
}

// A model may start far above equal guesses (large initial weights): that is no spike, and what follows is held against it.
TEST(LossSpikes, AHighFirstLossIsNone) {
  EXPECT_THAT(spikes({{}, 264}, {90, 200, 80, 271}), testing::ElementsAre(4));
}

// Eight losses make a median: 2 to 9 have 5.5; 16.5 is three times that.
TEST(LossSpikes, FromTheEighthLossOnTheMedianCounts) {
  std::vector<double> losses = {2, 3, 4, 5, 6, 7, 8, 9};
  losses.push_back(16.6);
  LossSpikes detector({}, 50000);
  for (int i = 0; i < 8; ++i) detector.accept(losses[static_cast<std::size_t>(i)]);
  EXPECT_EQ(detector.why_spike(16.5), "");
  EXPECT_EQ(detector.why_spike(16.6), "the loss is 16.6, more than 3 times 5.5, the median of the last 8 losses");
}

// The window of 4 slides: after 8, 8, 8, 8, 2, 2, 2 the last four are 8, 2, 2, 2, median 2; before, 8 of 8, 8, 2, 2 is 5.
TEST(LossSpikes, TheMedianRuns) {
  LossSpikes detector({.factor = 2, .window = 4}, 264);
  for (const double loss : {8, 8, 8, 8, 2, 2}) detector.accept(loss);
  EXPECT_EQ(detector.why_spike(10), "");
  EXPECT_NE(detector.why_spike(10.1), "");
  detector.accept(2);
  EXPECT_EQ(detector.why_spike(4), "");
  EXPECT_THAT(detector.why_spike(4.1), HasSubstr("the median of the last 4 losses"));
}

TEST(LossSpikes, ALossThatIsNotFiniteIsAlwaysOne) {
  LossSpikes detector({}, 264);
  EXPECT_EQ(detector.why_spike(not_a_number), "the loss is nan");
  EXPECT_EQ(detector.why_spike(infinity), "the loss is inf");
  EXPECT_EQ(detector.why_spike(1e9), "") << "the first one is what it is";
}

TEST(LossSpikes, AResumedOneDecidesAlike) {
  const auto losses = curve(264, 1.3, 5, 0.2, 3, 80);
  for (const int cut : {0, 1, 5, 8, 60}) {
    LossSpikes whole({}, 264), before({}, 264), after({}, 264);
    for (int i = 0; i < 80; ++i) {
      whole.accept(losses[static_cast<std::size_t>(i)]);
      (i < cut ? before : after).accept(losses[static_cast<std::size_t>(i)]);
      if (i + 1 == cut) after.restore(nlohmann::json::parse(before.state().dump()), "state.json", "guard");
    }
    EXPECT_EQ(after.state(), whole.state()) << cut;
    EXPECT_EQ(after.why_spike(1e3), whole.why_spike(1e3)) << cut;
  }
}

TEST(LossSpikes, AShorterWindowKeepsTheNewestLosses) {
  LossSpikes before({.window = 50}, 264), after({.window = 2}, 264);
  for (const double loss : {9, 9, 9, 4, 2}) before.accept(loss);
  after.restore(before.state(), "state.json", "guard");
  EXPECT_EQ(after.state(), nlohmann::json::parse(R"({"first_loss": 9.0, "losses": [4.0, 2.0]})"));
}

TEST(LossSpikes, RefusesAStateThatIsNone) {
  for (const char* text : {R"({"losses": 3})", R"({"losses": ["x"]})", R"({"losses": [null]})", R"({"first_loss": "x"})"}) {
    LossSpikes detector({}, 264);
    try {
      detector.restore(nlohmann::json::parse(text), "state.json", "guard");
      FAIL() << text;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.detail().file, "state.json");
      EXPECT_THAT(error.detail().key, HasSubstr("guard.")) << text;
    }
  }
}

}  // namespace
}  // namespace trireme::train
