#include "model/parameter_parts.h"

#include <gtest/gtest.h>

#include "model/model_catalog.h"

namespace trireme::model {
namespace {

ModelSpec shipped(const char* name) {
  return find_model(name, TRIREME_SOURCE_DIR "/configs/models");
}

// Hidden 8, 4 heads of 4 with 2 key/value heads; an MoE layer of 6 experts of width 5 and a shared one of 6.
ModelSpec small() {
  ModelSpec s{.vocab_size = 11, .hidden = 8, .num_layers = 2, .num_dense_layers = 1, .dense_ffn = 12};
  s.attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 4, .qk_norm = true, .bias = true, .output_bias = true};
  s.moe = {.num_experts = 6, .expert_ffn = 5, .shared_ffn = 6, .router = {.top_k = 2}};
  return s;
}

TEST(ParameterParts, ALayerByHand) {
  const ParameterParts moe = layer_parameters(small(), 1);
  // q 8 x 16, k and v 8 x 8, o 16 x 8; biases 16 + 8 + 8 + 8; norms of q and k heads 4 + 4.
  EXPECT_EQ(moe.attention, 128 + 64 + 64 + 128 + 40 + 8);
  EXPECT_EQ(moe.norms, 16);
  EXPECT_EQ(moe.router, 48);
  EXPECT_EQ(moe.routed_experts, 6 * 3 * 8 * 5);
  EXPECT_EQ(moe.shared_experts, 3 * 8 * 6);
  EXPECT_EQ(moe.dense, 0);
  EXPECT_EQ(layer_parameters(small(), 0).dense, 3 * 8 * 12);
  EXPECT_EQ(layer_parameters(small(), 0).router, 0);
}

TEST(ParameterParts, ShardsOfARank) {
  const ParameterParts p = layer_parameters(small(), 1, {.tp = 2, .ep = 3, .etp = 5});
  // Half of the heads: q 8 x 8, k and v 8 x 4, o 8 x 8; biases 8 + 4 + 4, the output's whole; head norms whole.
  EXPECT_EQ(p.attention, 64 + 32 + 32 + 64 + 16 + 8 + 8);
  EXPECT_EQ(p.norms, 16);
  EXPECT_EQ(p.router, 48);
  EXPECT_EQ(p.routed_experts, 2 * 3 * 8 * 1);
  EXPECT_EQ(p.shared_experts, 3 * 8 * 3);
  // With more ranks than key/value heads each still has one.
  EXPECT_EQ(layer_parameters(small(), 1, {.tp = 4}).attention, 32 + 32 + 32 + 32 + 4 + 4 + 4 + 8 + 8);
  // The largest share where nothing divides: 6 experts on 4 ranks, 11 rows of the table on 2.
  EXPECT_EQ(layer_parameters(small(), 1, {.ep = 4}).routed_experts, 2 * 120);
  EXPECT_EQ(parameters_of(small(), {.embed = true}, {.tp = 2}).embedding, 6 * 8);
}

// DeepSeek-V3's latent attention: q 7168 x 1536 and 1536 x 128 x 192; keys and values 7168 x 576 and
// 512 x 128 x 256; output 128 x 128 x 7168; norms 1536 + 512. On 8 ranks the two down-projections and norms are whole.
TEST(ParameterParts, LatentAttentionKeepsItsDownProjectionsWhole) {
  const ModelSpec s = shipped("deepseek_v3");
  const std::int64_t down = 7168 * 1536 + 7168 * 576 + 1536 + 512;
  const std::int64_t up = 1536LL * 128 * 192 + 512LL * 128 * 256 + 128LL * 128 * 7168;
  EXPECT_EQ(layer_parameters(s, 0).attention, down + up);
  EXPECT_EQ(layer_parameters(s, 0, {.tp = 8}).attention, down + up / 8);
}

TEST(ParameterParts, StagesAddUpAndEndsCountOnce) {
  ModelSpec s = shipped("deepseek_v3");
  const LayerRange first{.first_layer = 0, .num_layers = 31, .embed = true};
  const LayerRange last{.first_layer = 31, .num_layers = 30, .head = true, .mtp = true};
  const std::int64_t table = std::int64_t{129280} * 7168;
  // The MTP block embeds tokens on the last stage: a copy of the table there.
  EXPECT_EQ(parameters_of(s, first).total() + parameters_of(s, last).total(),
            parameters_of(s, whole_model(s, true)).total() + table);
  s.mtp_depth = 0;
  EXPECT_EQ(parameters_of(s, first).total() + parameters_of(s, last).total(),
            parameters_of(s, whole_model(s, true)).total());
}

TEST(ParameterParts, ATiedTableIsCopiedToTheHeadsStage) {
  ModelSpec s = small();
  s.tied_embeddings = true;
  EXPECT_EQ(parameters_of(s, {.embed = true, .head = true}).head, 0);
  EXPECT_EQ(parameters_of(s, {.head = true}).head, 88);
  s.mtp_depth = 1;
  const ParameterParts last = parameters_of(s, {.head = true, .mtp = true});
  EXPECT_EQ(last.head, 88);
  EXPECT_EQ(last.embedding, 0);  // the head's copy serves the MTP block
  // 2 x 8 x 8, and three norms beside the layer's two and the final one.
  EXPECT_EQ(last.mtp, 128);
  EXPECT_EQ(last.norms, 8 * (3 + 2 + 1));
}

TEST(ParameterParts, ASharedMtpBlockIsHeldOnce) {
  ModelSpec s = small();
  s.mtp_depth = 2;
  const auto two = parameters_of(s, whole_model(s, true)).total();
  s.mtp_shared = true;
  const auto one = parameters_of(s, whole_model(s, true)).total();
  s.mtp_depth = 0;
  const auto none = parameters_of(s, whole_model(s, true)).total();
  EXPECT_EQ(two - none, 2 * (one - none));
  EXPECT_GT(one, none);
}

TEST(ParameterParts, GptHasBiasesPositionsAndLayerNorms) {
  ModelSpec s{.vocab_size = 10, .hidden = 4, .num_layers = 1, .dense_ffn = 6, .tied_embeddings = true};
  s.attention = {.num_heads = 2, .num_kv_heads = 2, .head_dim = 2, .bias = true, .output_bias = true};
  s.gated = false, s.mlp_bias = true, s.norm = NormKind::layer, s.learned_positions = 5;
  const ParameterParts p = parameters_of(s, whole_model(s, false));
  EXPECT_EQ(p.embedding, 10 * 4 + 5 * 4);
  EXPECT_EQ(p.attention, 4 * 16 + 4 * 4);
  EXPECT_EQ(p.dense, 2 * 4 * 6 + 6 + 4);
  EXPECT_EQ(p.norms, 3 * 8);
  EXPECT_EQ(p.head, 0);
}

TEST(ParameterParts, GatesSinksBiasesAndWidthsOfExperts) {
  ModelSpec s = small();
  const ParameterParts plain = layer_parameters(s, 1);
  s.moe.shared_gate = true, s.moe.router.bias = true, s.moe.expert_bias = true;
  s.attention.sinks = true, s.attention.output_gate = true, s.sandwich_norms = true;
  const ParameterParts p = layer_parameters(s, 1);
  EXPECT_EQ(p.shared_experts - plain.shared_experts, 8);
  EXPECT_EQ(p.router - plain.router, 6);
  EXPECT_EQ(p.routed_experts - plain.routed_experts, 6 * (5 + 5 + 8));
  EXPECT_EQ(p.attention - plain.attention, 4 + 8 * 16);
  EXPECT_EQ(p.norms, 32);
  s.moe.expert_bias = false;
  s.moe.latent_dim = 4;
  EXPECT_EQ(layer_parameters(s, 1).routed_experts, 6 * 3 * 4 * 5);
  EXPECT_EQ(layer_parameters(s, 1).shared_experts - p.shared_experts, 2 * 8 * 4);
}

TEST(ParameterParts, ActiveCountsTopK) {
  const ParameterParts all = parameters_of(small(), whole_model(small(), false)), active = active_parameters(small());
  EXPECT_EQ(active.routed_experts, 2 * 120);
  EXPECT_EQ(active.total(), all.total() - 4 * 120);
}

}  // namespace
}  // namespace trireme::model
