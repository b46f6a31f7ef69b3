#include "model/model_spec.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/errors.h"

namespace trireme::model {
namespace {

using ::testing::HasSubstr;

const char* kModel = R"([model]
vocab_size = 264
hidden = 64
num_layers = 3
num_dense_layers = 1
dense_ffn = 128
[model.attention]
num_heads = 4
num_kv_heads = 2
[model.moe]
num_experts = 8
expert_ffn = 32
[model.moe.router]
top_k = 2
)";

ModelSpec read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto table = ConfigTable::from_text(text, "m.toml", overrides);
  auto model = table.table("model");
  ModelSpec spec = read_model(model);
  table.finish();
  return spec;
}

std::string error_with(const std::vector<std::string>& overrides) {
  try {
    read(kModel, overrides);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(ModelSpec, ReadsKeysAndDefaults) {
  const ModelSpec spec = read(kModel);
  EXPECT_EQ(spec.vocab_size, 264);
  EXPECT_EQ(spec.attention.head_dim, 16);  // hidden / heads
  EXPECT_EQ(spec.attention.num_kv_heads, 2);
  EXPECT_EQ(spec.moe.router.top_k, 2);
  EXPECT_TRUE(spec.moe.router.renormalise);
  EXPECT_EQ(spec.family, Family::trireme);
  EXPECT_FALSE(spec.is_moe(0));
  EXPECT_TRUE(spec.is_moe(1));
  EXPECT_EQ(spec.num_moe_layers(), 2);
  EXPECT_EQ(read(kModel, {"model.attention.head_dim=8"}).attention.head_dim, 8);
}

TEST(ModelSpec, WritesWhatItReads) {
  const ModelSpec a = read(kModel);
  EXPECT_EQ(read(to_toml(a)), a);
  // Every key away from its default.
  const ModelSpec b{.name = "b \"quoted\"",
                    .family = Family::qwen3_moe,
                    .vocab_size = 7,
                    .hidden = 6,
                    .num_layers = 5,
                    .num_dense_layers = 2,
                    .dense_ffn = 9,
                    .norm_eps = 1e-5,
                    .tied_embeddings = true,
                    .init_std = 0.1,
                    .attention = {.num_heads = 3,
                                  .num_kv_heads = 1,
                                  .head_dim = 10,
                                  .qk_norm = true,
                                  .bias = true,
                                  .output_bias = true,
                                  .rope_theta = 1e6},
                    .moe = {.num_experts = 12,
                            .expert_ffn = 11,
                            .shared_ffn = 13,
                            .router = {.top_k = 3,
                                       .score = ScoreFunction::sigmoid,
                                       .renormalise = false,
                                       .scale = 2.5,
                                       .num_groups = 4,
                                       .top_groups = 2,
                                       .selection_bias = true,
                                       .selection_bias_rate = 0.002,
                                       .aux_loss_coefficient = 0.01,
                                       .aux_loss_level = AuxLossLevel::micro_batch,
                                       .z_loss_coefficient = 0.003}}};
  EXPECT_EQ(read(to_toml(b)), b);
  const ModelSpec dense = read("[model]\nvocab_size=5\nhidden=4\nnum_layers=1\ndense_ffn=3\nattention={num_heads=2}\n");
  EXPECT_EQ(dense.num_moe_layers(), 0);
  EXPECT_EQ(read(to_toml(dense)), dense);
}

TEST(ModelSpec, ValuesThatDoNotFitAreNamed) {
  EXPECT_EQ(error_with({"model.moe.router.top_k=9"}),
            "m.toml: model.moe.router.top_k = 9: must lie in [1, model.moe.num_experts (8)]");
  EXPECT_EQ(error_with({"model.attention.num_kv_heads=3"}),
            "m.toml: model.attention.num_kv_heads = 3: must divide model.attention.num_heads (4)");
  EXPECT_EQ(error_with({"model.attention.head_dim=3"}),
            "m.toml: model.attention.head_dim = 3: must be even and at least 2: rotary positions turn pairs");
  EXPECT_EQ(error_with({"model.hidden=63"}),
            "m.toml: model.attention.num_heads = 4: must divide model.hidden (63) where head_dim is not given");
  EXPECT_EQ(error_with({"model.dense_ffn=0"}),
            "m.toml: model.dense_ffn = 0: must be at least 1: the model has dense layers");
  EXPECT_EQ(error_with({"model.num_dense_layers=4"}),
            "m.toml: model.num_dense_layers = 4: must lie in [0, model.num_layers (3)]");
  EXPECT_EQ(error_with({"model.moe.router.num_groups=3"}),
            "m.toml: model.moe.router.num_groups = 3: must divide model.moe.num_experts (8)");
  EXPECT_EQ(error_with({"model.moe.router.num_groups=8"}),
            "m.toml: model.moe.router.num_groups = 8: leaves groups of one expert: a group is scored by its two best");
  EXPECT_EQ(
      error_with({"model.moe.router.num_groups=4", "model.moe.router.top_groups=1", "model.moe.router.top_k=3"}),
      "m.toml: model.moe.router.top_k = 3: must be at most the 2 experts of model.moe.router.top_groups (1) groups");
  EXPECT_EQ(error_with({"model.moe.router.score=relu"}),
            "--set: model.moe.router.score = \"relu\": must be one of softmax, sigmoid, sqrt_softplus");
  EXPECT_EQ(error_with({"model.moe.experts=4"}),
            "--set: model.moe.experts = 4: unknown key; did you mean model.moe.num_experts?");
  EXPECT_THAT(error_with({"model.vocab_size=0"}), HasSubstr("model.vocab_size = 0"));
  EXPECT_THAT(error_with({"model.moe.expert_ffn=0"}), HasSubstr("model.moe.expert_ffn = 0: must be at least 1"));
}

TEST(ModelSpec, LoadsFilesOfBothKinds) {
  const auto folder = std::filesystem::temp_directory_path() / "trireme_model_spec_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "m.toml") << kModel;
  EXPECT_EQ(load_model(folder / "m.toml"), read(kModel));
  EXPECT_EQ(load_model(folder / "m.toml", {"model.hidden=128"}).attention.head_dim, 32);
  std::ofstream(folder / "config.json") << R"({"model_type": "mixtral", "hidden_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 32, "vocab_size": 100})";
  EXPECT_EQ(load_model(folder / "config.json").family, Family::mixtral);
  EXPECT_EQ(load_model(folder / "config.json", {"model.num_layers=5"}).num_layers, 5);
  std::ofstream(folder / "broken.json") << "{";
  EXPECT_THROW(load_model(folder / "broken.json"), ConfigError);
  EXPECT_THROW(load_model(folder / "absent.json"), ConfigError);
  EXPECT_THROW(load_model(folder / "absent.toml"), ConfigError);
  std::filesystem::remove_all(folder);
}

TEST(ModelSpec, ShippedModelsAreValid) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_SOURCE_DIR "/configs/models")) {
    EXPECT_NO_THROW(load_model(entry.path())) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 3);
}

}  // namespace
}  // namespace trireme::model
