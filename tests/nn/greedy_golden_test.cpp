// Texts of always the likeliest token, against generate() of transformers (tools/make_greedy_goldens.py): three prompts
// of three models in one batch of unequal lengths, token by token behind cached keys and values.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "golden_file.h"
#include "helpers.h"
#include "model/hf_config.h"
#include "nn/extend.h"

namespace trireme::nn {
namespace {

struct Case {
  const char* name;
  at::ScalarType dtype;
  bool reference;
};

class GreedyGolden : public testing::TestWithParam<Case> {};

TEST_P(GreedyGolden, TokensAreThoseOfTransformers) {
  const std::filesystem::path folder = std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/golden";
  const auto models = nlohmann::json::parse(std::ifstream(folder / "greedy.json")).at("models");
  ASSERT_EQ(models.size(), 3u);
  for (const auto& [name, runs] : models.items()) {
    const GoldenFile golden = read_golden(folder / (name + ".safetensors"));
    const auto spec = model::from_hf_config(nlohmann::json::parse(golden.metadata.at("config")), name);
    auto model = make_model(spec, GetParam().dtype, GetParam().reference);
    {
      at::NoGradGuard no_grad;
      fill_from_golden(*model, golden);
    }
    const auto count = static_cast<std::int64_t>(runs.size());
    ASSERT_EQ(count, 3);
    KeyValueCache cache = make_cache(spec, model->hosted().layers, model->options(), count, 64);
    std::vector<std::vector<std::int64_t>> found(runs.size());
    std::vector<SlotTokens> next;
    for (std::int64_t i = 0; i < count; ++i)
      next.push_back({i, runs[static_cast<std::size_t>(i)].at("prompt").get<std::vector<std::int64_t>>()});
    for (int step = 0; step < 40; ++step) {
      const at::Tensor tokens = next_logits(*model, follow(cache, next), cache).argmax(-1);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto token = tokens[i].item<std::int64_t>();
        found[static_cast<std::size_t>(i)].push_back(token);
        next[static_cast<std::size_t>(i)].tokens = {token};
      }
    }
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i], runs[i].at("tokens").get<std::vector<std::int64_t>>()) << name << ", prompt " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GreedyGolden,
                         testing::Values(Case{"fused", at::kFloat, false}, Case{"fused_float64", at::kDouble, false},
                                         Case{"reference_float64", at::kDouble, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace trireme::nn
