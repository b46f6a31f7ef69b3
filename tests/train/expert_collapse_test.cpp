#include "train/guard/expert_collapse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Layer 0 is dense; of 8 experts a token takes 2, so that one with every token has 8 / 2 = 4 times the mean.
model::ModelSpec spec(int experts = 8, int top_k = 2) {
  model::ModelSpec out{.vocab_size = 29, .hidden = 8, .num_layers = 3, .num_dense_layers = 1, .dense_ffn = 12};
  out.moe = {.num_experts = experts, .expert_ffn = 6};
  out.moe.router.top_k = top_k;
  return out;
}

TEST(ExpertCollapse, WarnsOnceAnEpisodeWithLayerAndExpert) {
  ExpertCollapse watcher(3, spec());
  const auto high = [&] { return watcher.watch({4.0, 1.2}, {5, 0}); };
  EXPECT_THAT(high(), IsEmpty());
  EXPECT_THAT(high(), IsEmpty());
  EXPECT_THAT(high(), ElementsAre("layer 1: expert 5 gets 100.0 % of all tokens, and one expert has got nearly all of them for "
                                  "3 steps in a row: the router has collapsed"));
  for (int i = 0; i < 10; ++i) EXPECT_THAT(high(), IsEmpty());
  // It comes down for a step: another episode.
  EXPECT_THAT(watcher.watch({3.9, 1.2}, {5, 0}), IsEmpty());
  high(), high();
  EXPECT_EQ(high().size(), 1u);
}

// 99 of 100 tokens: 3.96 times the mean.
TEST(ExpertCollapse, NearlyEveryTokenIsTheMaximum) {
  ExpertCollapse watcher(1, spec());
  EXPECT_THAT(watcher.watch({3.95, 3.95}, {0, 0}), IsEmpty());
  EXPECT_THAT(watcher.watch({3.95, 3.97}, {0, 7}), ElementsAre(testing::HasSubstr("layer 2: expert 7 gets 99.2 %")));
}

TEST(ExpertCollapse, WhereATokenTakesEveryExpertNothingCollapses) {
  ExpertCollapse watcher(1, spec(2, 2));
  EXPECT_THAT(watcher.watch({1.0, 1.0}, {0, 0}), IsEmpty());
}

TEST(ExpertCollapse, ZeroStepsIsNever) {
  ExpertCollapse watcher(0, spec());
  EXPECT_THAT(watcher.watch({4.0, 4.0}, {0, 0}), IsEmpty());
}

TEST(ExpertCollapse, AResumedOneWarnsWhenTheUninterruptedOneDoes) {
  for (int cut = 1; cut <= 5; ++cut) {
    ExpertCollapse before(4, spec()), after(4, spec());
    std::vector<int> warned;
    for (int step = 1; step <= 8; ++step) {
      if (!(step <= cut ? before : after).watch({4.0, 1.0}, {5, 0}).empty()) warned.push_back(step);
      if (step == cut) after.restore(nlohmann::json::parse(before.state().dump()), "state.json", "expert_collapse");
    }
    EXPECT_THAT(warned, ElementsAre(4)) << cut;
  }
}

TEST(ExpertCollapse, RefusesAStateThatIsNone) {
  for (const char* text : {"{}", "[1]", "[1, -1]", "[1, \"x\"]"})
    EXPECT_THROW(ExpertCollapse(4, spec()).restore(nlohmann::json::parse(text), "state.json", "k"), ConfigError) << text;
}

}  // namespace
}  // namespace trireme::train
