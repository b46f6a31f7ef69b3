#include "model/model_spec.h"

#include <unistd.h>

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

// Every key that the models of the test above leave at its default.
TEST(ModelSpec, WritesWhatOnlyPlanningKnows) {
  ModelSpec s{.name = "all", .vocab_size = 7, .hidden = 6, .num_layers = 4, .dense_ffn = 9};
  s.attention = {.num_heads = 4,
                 .num_kv_heads = 4,
                 .head_dim = 10,
                 .qk_norm = true,
                 .kind = AttentionKind::latent,
                 .q_lora_rank = 5,
                 .kv_lora_rank = 6,
                 .qk_nope_dim = 6,
                 .qk_rope_dim = 4,
                 .v_head_dim = 3,
                 .window = 16,
                 .full_every = 3,
                 .full_offset = 2,
                 .chunked = true,
                 .sinks = true,
                 .qk_norm_joint = true,
                 .output_gate = true,
                 .rope_fraction = 0.5,
                 .rope_scaling = RopeScaling::llama3,
                 .shared_kv = true,
                 .o_lora_rank = 8,
                 .o_groups = 2,
                 .compression = {0, 4, 0, 4},
                 .index_top_k = 3,
                 .index_compression = 4,
                 .index_heads = 2,
                 .index_head_dim = 5};
  s.moe = {.num_experts = 4,
           .expert_ffn = 3,
           .shared_ffn = 2,
           .router = {.top_k = 2,
                      .score = ScoreFunction::sqrt_softplus,
                      .num_groups = 4,
                      .top_groups = 3,
                      .bias = true,
                      .scores_input = true,
                      .group_by_maximum = true},
           .every = 2,
           .offset = 1,
           .shared_gate = true,
           .expert_bias = true,
           .latent_dim = 5};
  s.gated = false;
  s.activation = Activation::squared_relu;
  s.mlp_bias = true;
  s.norm = NormKind::layer;
  s.sandwich_norms = true;
  s.learned_positions = 12;
  s.residual_streams = 4;
  s.mtp_depth = 2;
  s.mtp_shared = true;
  s.linear = {.kind = LinearMixerKind::gated_delta,
              .num_heads = 6,
              .head_dim = 2,
              .num_groups = 3,
              .state_dim = 4,
              .conv_width = 5,
              .attention_every = 2,
              .attention_offset = 1};
  EXPECT_EQ(read(to_toml(s)), s);
  s.moe.every = 1, s.moe.offset = 0;
  s.pattern = "M*E-";
  EXPECT_EQ(read(to_toml(s)), s);
}

TEST(ModelSpec, LayersOfEachKind) {
  ModelSpec s{.vocab_size = 7, .hidden = 8, .num_layers = 6, .num_dense_layers = 1, .dense_ffn = 9};
  s.attention = {.num_heads = 2, .num_kv_heads = 2, .head_dim = 4, .window = 5, .full_every = 3, .full_offset = 2};
  s.moe = {.num_experts = 4, .expert_ffn = 3, .router = {.top_k = 2}, .every = 2, .offset = 1};
  const auto letters = [](const ModelSpec& spec, int layers) {
    std::string out;
    for (int layer = 0; layer < layers; ++layer) {
      const Mixer m = spec.mixer(layer);
      out += m == Mixer::attention ? (spec.window(layer) > 0 ? 'w' : 'a') : m == Mixer::linear ? 'l' : '.';
      const FeedForward f = spec.feed_forward(layer);
      out += f == FeedForward::moe ? 'E' : f == FeedForward::dense ? 'd' : '.';
    }
    return out;
  };
  EXPECT_EQ(letters(s, 6), "wdwEadwEwdaE");
  EXPECT_EQ(s.num_moe_layers(), 3);
  s.num_dense_layers = 2;
  EXPECT_EQ(letters(s, 6), "wdwdadwEwdaE");  // layer 1 is one of the first
  s.linear = {
      .kind = LinearMixerKind::gated_delta, .num_heads = 2, .head_dim = 4, .state_dim = 4, .attention_every = 2};
  EXPECT_EQ(letters(s, 6), "wdldadlEwdlE");
  s.num_dense_layers = 0;
  s.pattern = "ME*-MM";
  s.mtp_depth = 1;
  EXPECT_EQ(letters(s, 7), "l..Ea..dl.l.wE");  // the MTP block: attention and MoE
  EXPECT_EQ(with_layers(s, 3).pattern, "ME*");
  EXPECT_EQ(with_layers(s, 8).pattern, "ME*-MMMM");
}

TEST(ModelSpec, CutsKeepListsAndDenseLayers) {
  ModelSpec s{.vocab_size = 7, .hidden = 8, .num_layers = 5, .num_dense_layers = 3, .dense_ffn = 9};
  s.attention = {.num_heads = 2, .num_kv_heads = 2, .head_dim = 4, .window = 5, .compression = {0, 0, 4, 128, 4}};
  s.moe = {.num_experts = 4, .expert_ffn = 3, .router = {.top_k = 2}};
  EXPECT_EQ(with_layers(s, 3).attention.compression, (std::vector<int>{0, 0, 4}));
  EXPECT_EQ(with_layers(s, 7).attention.compression, (std::vector<int>{0, 0, 4, 128, 4, 128, 4}));
  EXPECT_EQ(with_layers(s, 4).num_dense_layers, 3);
  EXPECT_EQ(with_layers(s, 2).num_dense_layers, 2);
  EXPECT_EQ(with_layers(s, 4, 1).num_dense_layers, 1);
  EXPECT_EQ(with_layers(s, 5), s);
}

TEST(ModelSpec, FurtherValuesThatDoNotFitAreNamed) {
  const std::string latent = "model.attention.kind=latent";
  EXPECT_EQ(error_with({latent}),
            "m.toml: model.attention.qk_nope_dim = 0: latent attention needs the sizes of a head: qk_nope_dim and "
            "qk_rope_dim");
  EXPECT_EQ(error_with({latent, "model.attention.qk_rope_dim=8"}),
            "m.toml: model.attention.kv_lora_rank = 0: must be at least 1 for latent attention");
  EXPECT_EQ(error_with({latent, "model.attention.qk_rope_dim=8", "model.attention.kv_lora_rank=4"}),
            "m.toml: model.attention.num_kv_heads = 2: must be num_heads (4) for latent attention");
  EXPECT_EQ(error_with({"model.attention.kv_lora_rank=4"}),
            "m.toml: model.attention.kv_lora_rank = 4: needs model.attention.kind = \"latent\"");
  EXPECT_EQ(error_with({"model.attention.full_every=2"}),
            "m.toml: model.attention.full_every = 2: needs model.attention.window: without one every layer is full");
  EXPECT_EQ(error_with({"model.attention.window=8", "model.attention.full_every=2", "model.attention.full_offset=2"}),
            "m.toml: model.attention.full_offset = 2: must lie in [0, model.attention.full_every (2))");
  EXPECT_EQ(error_with({"model.attention.rope_fraction=1.5"}),
            "m.toml: model.attention.rope_fraction = 1.5: must lie in [0, 1]");
  EXPECT_EQ(error_with({"model.attention.compression=[0, 4]"}),
            "m.toml: model.attention.compression = 2 entries: must have one entry a layer (3)");
  EXPECT_EQ(error_with({"model.attention.o_groups=3"}),
            "m.toml: model.attention.o_groups = 3: must divide model.attention.num_heads (4)");
  EXPECT_EQ(error_with({"model.moe.every=2", "model.moe.offset=2"}),
            "m.toml: model.moe.offset = 2: must lie in [0, model.moe.every (2))");
  EXPECT_EQ(error_with({"model.moe.shared_gate=true"}),
            "m.toml: model.moe.shared_gate = true: needs model.moe.shared_ffn");
  EXPECT_EQ(error_with({"model.num_dense_layers=0", "model.pattern=M*"}),
            "m.toml: model.pattern = M*: must have one letter a layer (3), not 2");
  EXPECT_EQ(error_with({"model.num_dense_layers=0", "model.pattern=M*x"}),
            "m.toml: model.pattern = M*x: its letters must be of M, *, E and -");
  EXPECT_EQ(error_with({"model.num_dense_layers=0", "model.pattern=M*E"}),
            "m.toml: model.pattern = M*E: its M needs model.linear.kind");
  EXPECT_EQ(error_with({"model.linear.kind=mamba2"}), "m.toml: model.linear.num_heads = 0: must be at least 1");
  EXPECT_EQ(error_with({"model.attention.kind=mla"}),
            "--set: model.attention.kind = \"mla\": must be one of grouped, latent");
  EXPECT_EQ(error_with({"model.mtp_dept=1"}), "--set: model.mtp_dept = 1: unknown key; did you mean model.mtp_depth?");
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

// Sizes whose products no integer holds: 2^31 experts of three matrices of 64 x 32 in 2 layers are 2^43 weights, but of
// Mixtral's 4096 x 14336 in 32 layers 1.2e19, more than 2^63.
TEST(ModelSpec, SizesBeyondAnyModelAreRefused) {
  EXPECT_EQ(error_with({"model.num_layers=2147483647"}), "m.toml: model.num_layers = 2147483647: must be at most 10000");
  EXPECT_EQ(error_with({"model.mtp_depth=2147483647"}), "m.toml: model.mtp_depth = 2147483647: must be at most 10000");
  EXPECT_EQ(error_with({"model.moe.num_experts=2147483647"}),
            "m.toml: model.moe.num_experts = 2147483647: must be at most 1048576");
  EXPECT_EQ(error_with({"model.residual_streams=2147483647"}),
            "m.toml: model.hidden = 64: makes a width of 137438953408: at most 16777216");
  EXPECT_EQ(error_with({"model.attention.head_dim=2147483646"}),
            "m.toml: model.attention.num_heads = 4: makes a width of 8589934584: at most 16777216");
  EXPECT_EQ(error_with({"model.dense_ffn=2147483647"}), "m.toml: model.dense_ffn = 2147483647: must be at most 16777216");
  // 3 layers x 3 x 2^24 x 1048576 x 2^24 alone
  EXPECT_THAT(error_with({"model.hidden=16777216", "model.moe.num_experts=1048576", "model.moe.expert_ffn=16777216"}),
              HasSubstr("model = about 2.66e+21 parameters: at most 9007199254740992 are counted"));
}

TEST(ModelSpec, LoadsFilesOfBothKinds) {
  const auto folder = std::filesystem::temp_directory_path() / ("trireme_model_spec_test_" + std::to_string(::getpid()));
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
