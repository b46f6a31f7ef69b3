#include "train/optim/learning_rate.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace trireme::train {
namespace {

TEST(LearningRate, WarmsUpLinearlyFromTheFirstStep) {
  for (const char* kind : {"cosine", "linear", "wsd", "constant"}) {
    const plan::LearningRateSpec spec{.kind = kind, .warmup_steps = 4, .decay_steps = 2};
    EXPECT_DOUBLE_EQ(learning_rate(spec, 8.0, 100, 1), 2.0);
    EXPECT_DOUBLE_EQ(learning_rate(spec, 8.0, 100, 3), 6.0);
    EXPECT_DOUBLE_EQ(learning_rate(spec, 8.0, 100, 4), 8.0);
  }
}

// 10 steps of warm-up, 100 in all, ratio 0.1: half of the way (step 55) is (1 + 0.1) / 2 = 0.55 of the peak; a third
// (step 40) is 0.1 + 0.9 * (1 + cos 60 degrees) / 2 = 0.775; the end is 0.1.
TEST(LearningRate, CosineFallsToTheMinimumAtTheLastStep) {
  const plan::LearningRateSpec spec{.kind = "cosine", .warmup_steps = 10, .min_ratio = 0.1};
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 40), 0.775, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 55), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 100), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 150), 0.1, 1e-12);
}

// As torch.optim.lr_scheduler.LinearLR(start_factor=1, end_factor=0.1, total_iters=90) behind ten steps of warm-up gives:
// 0.99 at step 11 (a ninetieth of the way, 1 - 0.9 / 90), 0.7 at 40, 0.55 at 55, 0.11 at 99, 0.1 at 100.
TEST(LearningRate, LinearFallsToTheMinimumAtTheLastStep) {
  const plan::LearningRateSpec spec{.kind = "linear", .warmup_steps = 10, .min_ratio = 0.1};
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 10), 1.0, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 11), 0.99, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 40), 0.7, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 55), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 2.0, 100, 99), 0.22, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 100), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 150), 0.1, 1e-12);
}

// 20 decaying steps of 100, ratio 0.2: stable up to step 80, then 0.04 less a step.
TEST(LearningRate, WsdStaysAndThenDecaysLinearly) {
  const plan::LearningRateSpec spec{.kind = "wsd", .warmup_steps = 10, .decay_steps = 20, .min_ratio = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate(spec, 1.0, 100, 11), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(spec, 1.0, 100, 80), 1.0);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 81), 0.96, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 90), 0.6, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 1.0, 100, 100), 0.2, 1e-12);
}

TEST(LearningRate, ConstantStays) {
  const plan::LearningRateSpec spec{.kind = "constant"};
  EXPECT_DOUBLE_EQ(learning_rate(spec, 3e-4, 10, 1), 3e-4);
  EXPECT_DOUBLE_EQ(learning_rate(spec, 3e-4, 10, 10), 3e-4);
}

TEST(LearningRate, AWarmUpAsLongAsTheRunNeverDivides) {
  for (const char* kind : {"cosine", "linear"}) {
    const plan::LearningRateSpec spec{.kind = kind, .warmup_steps = 10};
    EXPECT_DOUBLE_EQ(learning_rate(spec, 1.0, 10, 10), 1.0);
  }
}

TEST(LearningRate, NamesTheKeyOfAnUnknownKind) {
  try {
    learning_rate({.kind = "exponential"}, 1.0, 10, 1);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().key, "train.schedule.kind");
    EXPECT_EQ(error.detail().value, "exponential");
  }
}

}  // namespace
}  // namespace trireme::train
