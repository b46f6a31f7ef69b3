#include "plan/frozen_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "model/parameters.h"
#include "plan/run_spec.h"

namespace trireme::plan {
namespace {

using testing::HasSubstr;

model::ModelSpec spec(bool selection_bias = false) {
  model::ModelSpec out{.vocab_size = 29, .hidden = 8, .num_layers = 3, .num_dense_layers = 1, .dense_ffn = 12};
  out.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4};
  out.moe = {.num_experts = 4, .expert_ffn = 6};
  out.moe.router = {.top_k = 2, .selection_bias = selection_bias};
  return out;
}

std::vector<std::string> frozen(std::vector<std::string> patterns) {
  std::vector<std::string> out;
  const FrozenParameters these(std::move(patterns));
  for (const model::ParameterSpec& p : model::parameters(spec()))
    if (these.has(p.name)) out.push_back(p.name);
  return out;
}

TEST(FrozenParameters, PatternsAreTheShells) {
  EXPECT_THAT(frozen({"*.router.*"}), testing::ElementsAre("layers.1.router.weight", "layers.2.router.weight"));
  EXPECT_THAT(frozen({"embed*", "head.weight"}), testing::ElementsAre("embed.weight", "head.weight"));
  EXPECT_THAT(frozen({"layers.[01].attention.?.weight"}),
              testing::ElementsAre("layers.0.attention.q.weight", "layers.0.attention.k.weight", "layers.0.attention.v.weight",
                                   "layers.0.attention.o.weight", "layers.1.attention.q.weight", "layers.1.attention.k.weight",
                                   "layers.1.attention.v.weight", "layers.1.attention.o.weight"));
  EXPECT_THAT(frozen({"layers.2.experts.3.*"}), testing::SizeIs(3));
  EXPECT_THAT(frozen({}), testing::IsEmpty());
}

TEST(FrozenParameters, APatternOfNothingIsNamedWithWhatIsNear) {
  EXPECT_THAT(FrozenParameters({"embed*", "*.routr.*"}).problem(spec()),
              testing::StartsWith("\"*.routr.*\" is the name of no parameter of the model; near it are layers.*.router.weight, "));
  EXPECT_THAT(FrozenParameters({"embedding"}).problem(spec()), HasSubstr("embed.weight"));
  EXPECT_THAT(FrozenParameters({"layers.0.router.*"}).problem(spec()), HasSubstr("layers.*.router.weight")) << "layer 0 is dense";
  EXPECT_EQ(FrozenParameters({"embed*", "*.router.*"}).problem(spec()), "");
  EXPECT_EQ(FrozenParameters().problem(spec()), "");
}

TEST(FrozenParameters, CountsWhatOthersDoNotFreeze) {
  const FrozenParameters routers({"*.router.*"}), more({"layers.1.router.*", "embed*"});
  EXPECT_EQ(routers.count_without({}, spec()), 2);
  EXPECT_EQ(routers.count_without(more, spec()), 1);
  EXPECT_EQ(more.count_without(routers, spec()), 1);
  EXPECT_EQ(FrozenParameters().count_without(routers, spec()), 0);
}

TEST(FrozenParameters, SomethingIsLeftToTrain) {
  EXPECT_EQ(FrozenParameters({"*"}).problem(spec()), "nothing would be left to train");
}

TEST(FrozenParameters, ASelectionBiasHasANameWhereThereIsOne) {
  EXPECT_EQ(FrozenParameters({"*.selection_bias"}).problem(spec(true)), "");
  EXPECT_NE(FrozenParameters({"*.selection_bias"}).problem(spec(false)), "");
}

TEST(FrozenParameters, ARunFileWithABadPatternIsBadInput) {
  const std::string text = R"([model]
vocab_size = 29
hidden = 8
num_layers = 2
dense_ffn = 12
[model.attention]
num_heads = 2
[data]
train = "random"
)";
  EXPECT_EQ(parse_run(text + "[train]\nfreeze = [\"*norm*\"]\n", "r.toml").train.freeze.size(), 1u);
  try {
    parse_run(text + "[train]\nfreeze = [\"*.router.*\"]\n", "r.toml");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().key, "train.freeze");
    EXPECT_THAT(error.what(), HasSubstr("is the name of no parameter of the model"));
  }
}

}  // namespace
}  // namespace trireme::plan
