#include "model/untrainable.h"

#include <gmock/gmock.h>

#include "base/errors.h"
#include "model/model_catalog.h"

namespace trireme::model {
namespace {

ModelSpec shipped(const char* name) {
  return find_model(name, TRIREME_SOURCE_DIR "/configs/models");
}

std::vector<std::string> keys(const ModelSpec& spec) {
  std::vector<std::string> out;
  for (const Untrainable& u : untrainable(spec)) out.push_back(u.key);
  return out;
}

TEST(Untrainable, WhatNnComputesIsTrainable) {
  for (const char* name :
       {"tiny", "quickstart", "moe_16x128", "moe_64_fine", "mixtral_8x7b", "qwen3_30b_a3b", "europa_951b", "llama2_7b"})
    EXPECT_THAT(keys(shipped(name)), testing::IsEmpty()) << name;
}

TEST(Untrainable, EveryReasonIsNamed) {
  EXPECT_THAT(keys(shipped("deepseek_v3")),
              testing::ElementsAre("model.mtp_depth", "model.attention.kind", "model.attention.rope_scaling"));
  EXPECT_THAT(keys(shipped("gpt3_175b")), testing::ElementsAre("model.gated", "model.activation", "model.mlp_bias",
                                                               "model.norm", "model.learned_positions"));
  EXPECT_THAT(keys(shipped("gpt_oss_20b")),
              testing::ElementsAre("model.attention.window", "model.attention.sinks", "model.attention.rope_scaling",
                                   "model.moe.expert_bias", "model.moe.router.bias"));
  EXPECT_THAT(keys(shipped("llama4_maverick_17b_128e")),
              testing::ElementsAre("model.attention.window", "model.moe.every", "model.moe.router.scores_input"));
  EXPECT_THAT(keys(shipped("qwen3_next_80b_a3b")),
              testing::ElementsAre("model.mtp_depth", "model.attention.output_gate", "model.attention.rope_fraction",
                                   "model.moe.shared_gate", "model.linear.kind"));
  EXPECT_THAT(keys(shipped("nemotron_3_super_120b_a12b")),
              testing::ElementsAre("model.gated", "model.activation", "model.mtp_depth", "model.pattern",
                                   "model.attention.rope_fraction", "model.moe.latent_dim", "model.linear.kind"));
  EXPECT_THAT(
      keys(shipped("deepseek_v4_flash")),
      testing::IsSupersetOf({"model.residual_streams", "model.attention.q_lora_rank", "model.attention.shared_kv",
                             "model.attention.o_lora_rank", "model.attention.compression", "model.moe.router.score"}));
  EXPECT_THAT(keys(shipped("deepseek_v2")), testing::Contains("model.moe.router.group_by_maximum"));
  EXPECT_THAT(keys(shipped("olmoe_1b_7b")), testing::ElementsAre("model.attention.qk_norm_joint"));
  EXPECT_THAT(keys(shipped("pangu_ultra_135b")), testing::ElementsAre("model.sandwich_norms"));
}

TEST(Untrainable, OneErrorListsAll) {
  try {
    refuse_untrainable(shipped("deepseek_v3"), "run.toml");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(),
                 "run.toml: model.mtp_depth = 1: this model can be planned but not trained yet: it has multi-token "
                 "prediction, latent attention, scaled rotary positions");
  }
  EXPECT_NO_THROW(refuse_untrainable(shipped("tiny"), "run.toml"));
}

}  // namespace
}  // namespace trireme::model
