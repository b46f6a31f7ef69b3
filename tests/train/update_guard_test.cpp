#include "train/guard/update_guard.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

plan::TrainSpec with_action(const char* action, std::int64_t skipped = 10, std::int64_t rewinds = 3) {
  plan::TrainSpec train;
  train.max_skipped_updates = skipped;
  train.loss_spike.action = action;
  train.loss_spike.max_rewinds = rewinds;
  return train;
}

Judgement judge(UpdateGuard& guard, double loss, double norm = 1) { return guard.judge({.loss = loss, .gradient_norm = norm}); }

TEST(UpdateGuard, MakesOrdinaryUpdates) {
  UpdateGuard guard({}, 264);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(judge(guard, 5 - 0.1 * i).verdict, Verdict::update);
  EXPECT_EQ(guard.skipped_in_a_row(), 0);
}

TEST(UpdateGuard, AtMostNUpdatesInARowAreSkipped) {
  for (const std::int64_t most : {0, 1, 3}) {
    UpdateGuard guard(with_action("stop", most), 264);
    EXPECT_EQ(judge(guard, 5).verdict, Verdict::update);
    // Two short rows first: a good step between them begins the count anew.
    for (std::int64_t i = 1; i <= most; ++i) EXPECT_EQ(judge(guard, 5, not_a_number).verdict, Verdict::skip);
    EXPECT_EQ(guard.skipped_in_a_row(), most);
    EXPECT_EQ(judge(guard, 5).verdict, Verdict::update);
    for (std::int64_t i = 1; i <= most; ++i) {
      const Judgement skipped = judge(guard, 5, infinity);
      EXPECT_EQ(skipped.verdict, Verdict::skip);
      EXPECT_EQ(skipped.reason, "the gradient norm is inf");
      EXPECT_EQ(skipped.bad_steps, i);
    }
    const Judgement last = judge(guard, 5, -not_a_number);
    EXPECT_EQ(last.verdict, Verdict::stop);
    EXPECT_EQ(last.bad_steps, most + 1);
    EXPECT_EQ(last.reason, fmt::format("the gradient norm is nan, and {} updates were skipped in a row before it "
                                       "(train.max_skipped_updates)", most));
  }
}

TEST(UpdateGuard, DoesWhatTheActionSays) {
  const std::vector<std::pair<const char*, Verdict>> cases = {
      {"stop", Verdict::stop}, {"skip", Verdict::skip}, {"rewind", Verdict::rewind}, {"off", Verdict::update}};
  for (const auto& [action, verdict] : cases) {
    UpdateGuard guard(with_action(action), 264);
    judge(guard, 5.5);
    EXPECT_EQ(judge(guard, 3045292).verdict, verdict) << action;
  }
}

TEST(UpdateGuard, ALossThatIsNotFiniteIsASpike) {
  UpdateGuard stop(with_action("stop"), 264), off(with_action("off"), 264);
  EXPECT_EQ(judge(stop, not_a_number, not_a_number).verdict, Verdict::stop);
  // With "off" its gradients are not finite either.
  EXPECT_EQ(judge(off, not_a_number, not_a_number).verdict, Verdict::skip);
}

TEST(UpdateGuard, SkippedSpikesCountAmongSkippedUpdatesAndNotInTheMedian) {
  UpdateGuard guard(with_action("skip", 2), 264);
  for (int i = 0; i < 8; ++i) judge(guard, 5);
  EXPECT_EQ(judge(guard, 100).verdict, Verdict::skip);
  EXPECT_EQ(judge(guard, 5, not_a_number).verdict, Verdict::skip);
  EXPECT_EQ(judge(guard, 100).verdict, Verdict::stop);
  UpdateGuard patient(with_action("skip", 100), 264);
  for (int i = 0; i < 8; ++i) judge(patient, 5);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(judge(patient, 100).verdict, Verdict::skip) << "the median must stay 5";
}

TEST(UpdateGuard, RewindsSoOftenAndThenStops) {
  UpdateGuard guard(with_action("rewind", 10, 2), 264);
  for (int i = 0; i < 8; ++i) judge(guard, 5);
  const nlohmann::json saved = guard.state();
  for (std::int64_t i = 1; i <= 2; ++i) {
    judge(guard, 5);
    EXPECT_EQ(judge(guard, 100).verdict, Verdict::rewind);
    EXPECT_EQ(guard.rewinds(), i);
    guard.restore(saved, "state.json", "guard");  // what the trainer does then: the checkpoint knows of no rewind
    EXPECT_EQ(guard.rewinds(), i);
  }
  const Judgement last = judge(guard, 100);
  EXPECT_EQ(last.verdict, Verdict::stop);
  EXPECT_THAT(last.reason, HasSubstr("gone back 2 times (train.loss_spike.max_rewinds)"));
}

// The spike comes behind two skipped updates: the weights have been what they are since the step before those.
TEST(UpdateGuard, ASpikeBehindSkippedUpdatesReachesBackToThem) {
  UpdateGuard guard(with_action("rewind"), 264);
  judge(guard, 5);
  judge(guard, 5, not_a_number);
  judge(guard, 5, not_a_number);
  EXPECT_EQ(judge(guard, 1e6).bad_steps, 3);
  EXPECT_EQ(guard.skipped_in_a_row(), 0);
}

TEST(UpdateGuard, AStepWithoutTargetsIsNotJudgedByItsLoss) {
  UpdateGuard guard({}, 264);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(guard.judge({.loss = 0, .has_targets = false, .gradient_norm = 0}).verdict, Verdict::update);
  EXPECT_EQ(judge(guard, 5.5).verdict, Verdict::update) << "zeros must not have become a median";
  EXPECT_EQ(guard.state()["losses"].size(), 1u);
}

TEST(UpdateGuard, AResumedOneDecidesAlike) {
  const std::vector<double> losses = {5, 4.5, 30, 4.4, 4.3, 40, 4.2, 4.1, 4.0, 4.0, 13, 4.0, 11.9};
  for (std::size_t cut = 1; cut < losses.size(); ++cut) {
    UpdateGuard whole(with_action("skip"), 264), before(with_action("skip"), 264), after(with_action("skip"), 264);
    std::vector<Verdict> uninterrupted, resumed;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      if (i == cut) {
        if (before.skipped_in_a_row() > 0) break;  // no checkpoint is written there
        after.restore(nlohmann::json::parse(before.state().dump()), "state.json", "guard");
      }
      uninterrupted.push_back(judge(whole, losses[i]).verdict);
      resumed.push_back(judge(i < cut ? before : after, losses[i]).verdict);
    }
    EXPECT_EQ(resumed, uninterrupted) << cut;
  }
}

TEST(UpdateGuard, RefusesAStateThatIsNone) {
  for (const char* text : {"[]", R"({"rewinds": -1})", R"({"rewinds": "x"})", R"({"rewinds": 1e300})"}) {
    UpdateGuard guard({}, 264);
    EXPECT_THROW(guard.restore(nlohmann::json::parse(text), "state.json", "guard"), ConfigError) << text;
  }
}

}  // namespace
}  // namespace trireme::train
