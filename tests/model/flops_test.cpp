#include "model/flops.h"

#include <gtest/gtest.h>

#include "model/model_catalog.h"

namespace trireme::model {
namespace {

ModelSpec shipped(const char* name) {
  return find_model(name, TRIREME_SOURCE_DIR "/configs/models");
}

double gflops(const char* name, std::int64_t sequence_length, const FlopConvention& convention) {
  return flops_per_token(shipped(name), sequence_length, convention).total() / 1e9;
}

// GFLOP a token implied by Megatron-Bridge's published TFLOP/s and tokens/s.
TEST(Flops, MegatronBridgesFigures) {
  EXPECT_NEAR(gflops("deepseek_v3", 4096, megatron_flops), 260.0, 0.05);  // with MTP
  EXPECT_NEAR(gflops("kimi_k2", 4096, megatron_flops), 204.5, 0.05);
  EXPECT_NEAR(gflops("qwen3_235b_a22b", 4096, megatron_flops), 148.0, 0.05);
  EXPECT_NEAR(gflops("qwen3_30b_a3b", 4096, megatron_flops), 23.0, 0.05);
  EXPECT_NEAR(gflops("gpt_oss_120b", 4096, megatron_flops), 32.6, 0.05);  // its later releases: windows counted
  EXPECT_NEAR(gflops("llama3_1_8b", 8192, megatron_flops), 51.5, 0.05);
  EXPECT_NEAR(gflops("llama3_1_70b", 8192, megatron_flops), 449.2, 0.05);
  EXPECT_NEAR(gflops("llama3_1_405b", 8192, megatron_flops), 2524, 0.5);
}

// For hybrid models Megatron-Bridge leaves the projections of the MTP blocks out (2 x 2 x 4096^2 parameters here).
TEST(Flops, HybridModelWithSharedMtpBlock) {
  const FlopsPerToken f = flops_per_token(shipped("nemotron_3_super_120b_a12b"), 8192, megatron_flops);
  EXPECT_NEAR((f.total() - f.mtp) / 1e9, 84.7, 0.05);
  EXPECT_DOUBLE_EQ(f.mtp, 3.0 * 2 * 2 * (2.0 * 4096 * 4096));
}

// Hidden 8, one head pair of 4, a dense layer of width 12, an MoE layer of 3 experts of width 5, top 2.
ModelSpec small() {
  ModelSpec s{.vocab_size = 11, .hidden = 8, .num_layers = 2, .num_dense_layers = 1, .dense_ffn = 12};
  s.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4};
  s.moe = {.num_experts = 3, .expert_ffn = 5, .shared_ffn = 6, .router = {.top_k = 2}};
  return s;
}

TEST(Flops, PartsByHand) {
  const FlopsPerToken f = flops_per_token(small(), 16);
  // Three passes, two operations a parameter.
  EXPECT_DOUBLE_EQ(f.projections, 6.0 * 2 * 192);             // q 64, k 32, v 32, o 64
  EXPECT_DOUBLE_EQ(f.scores, 3.0 * 2 * (2 * 2 * 8 * 4 * 2));  // two layers; 8 keys; 4 + 4 wide; 2 heads
  EXPECT_DOUBLE_EQ(f.router, 6.0 * 24);
  EXPECT_DOUBLE_EQ(f.routed_experts, 6.0 * 2 * 120);
  EXPECT_DOUBLE_EQ(f.shared_experts, 6.0 * 144);
  EXPECT_DOUBLE_EQ(f.dense, 6.0 * 288);
  EXPECT_DOUBLE_EQ(f.head, 6.0 * 88);
  EXPECT_DOUBLE_EQ(f.mtp, 0);
  EXPECT_EQ(active_matmul_parameters(small()), 384 + 24 + 240 + 144 + 288 + 88);
}

TEST(Flops, ConventionsChangeWhatTheySay) {
  const ModelSpec s = small();
  const double base = flops_per_token(s, 16).total();
  const FlopsPerToken parts = flops_per_token(s, 16);
  EXPECT_DOUBLE_EQ(flops_per_token(s, 16, {.square = AttentionSquare::full}).total(), base + parts.scores);
  EXPECT_DOUBLE_EQ(flops_per_token(s, 16, {.head = false}).total(), base - parts.head);
  EXPECT_DOUBLE_EQ(flops_per_token(s, 16, {.router = false}).total(), base - parts.router);
  EXPECT_DOUBLE_EQ(flops_per_token(s, 16, {.passes = 4}).total(), base * 4 / 3);
  EXPECT_DOUBLE_EQ(flops_per_token(s, 16, {.passes = 1}).total(), base / 3);
  ModelSpec deeper = s;
  deeper.mtp_depth = 2;
  EXPECT_DOUBLE_EQ(flops_per_token(deeper, 16, {.mtp = false}).total(), base);
  // Each block: an MoE layer, a projection of 2 x 8 x 8 and a pass through the head.
  const double layer = 3 * layer_flops(s, 1, 16).total();
  EXPECT_DOUBLE_EQ(flops_per_token(deeper, 16).total(), base + 2 * (layer + 6 * 128 + 6 * 88));
}

TEST(Flops, StagesAddUpToTheModel) {
  const ModelSpec s = shipped("deepseek_v3");
  FlopsPerToken sum = flops_of(s, {.first_layer = 0, .num_layers = 20, .embed = true}, 4096);
  sum += flops_of(s, {.first_layer = 20, .num_layers = 41, .head = true, .mtp = true}, 4096);
  EXPECT_DOUBLE_EQ(sum.total(), flops_per_token(s, 4096).total());
}

TEST(Flops, KeysOfWindowsChunksAndCompressedLayers) {
  ModelSpec s = small();
  const FlopConvention causal, full{.square = AttentionSquare::full};
  EXPECT_DOUBLE_EQ(keys_per_query(s, 0, 16, causal), 8);
  EXPECT_DOUBLE_EQ(keys_per_query(s, 0, 16, full), 16);
  s.attention.window = 4, s.attention.full_every = 2, s.attention.full_offset = 1;
  // The first 4 queries see 2 on average, the other 12 see 4: (8 + 48) / 16.
  EXPECT_DOUBLE_EQ(keys_per_query(s, 0, 16, causal), 3.5);
  EXPECT_DOUBLE_EQ(keys_per_query(s, 1, 16, causal), 8);
  EXPECT_DOUBLE_EQ(keys_per_query(s, 0, 16, full), 4);
  EXPECT_DOUBLE_EQ(keys_per_query(s, 0, 16, {.windows = false}), 8);
  EXPECT_DOUBLE_EQ(keys_per_query(s, 0, 2, causal), 1);  // a sequence inside the window
  s.attention.chunked = true;
  EXPECT_DOUBLE_EQ(keys_per_query(s, 0, 16, causal), 2);
  EXPECT_DOUBLE_EQ(keys_per_query(s, 0, 16, full), 4);
  s.attention.chunked = false;
  s.attention.full_every = 0;
  s.attention.compression = {0, 2};
  EXPECT_DOUBLE_EQ(keys_per_query(s, 0, 16, causal), 3.5);
  EXPECT_DOUBLE_EQ(keys_per_query(s, 1, 16, causal), 3.5 + 4);  // half of 8 compressed ones
  s.attention.index_compression = 2, s.attention.index_top_k = 4;
  EXPECT_DOUBLE_EQ(keys_per_query(s, 1, 16, causal), 3.5 + 3);  // 4 - 4^2 / (2 x 8)
}

TEST(Flops, TheTextNamesItsConvention) {
  EXPECT_EQ(gflop_per_token_text(shipped("deepseek_v3"), 4096, megatron_flops),
            "260.0 GFLOP/token (s 4096; forward and backward, causal attention (half the square), with head and MTP, "
            "without router)");
  EXPECT_EQ(to_text({.square = AttentionSquare::full, .windows = false, .head = false, .mtp = false, .passes = 4},
                    shipped("gpt_oss_20b")),
            "forward, backward and a recomputed forward, full attention square, windows counted as full, with router, "
            "without head");
  EXPECT_EQ(to_text({.passes = 1}, shipped("llama2_7b")), "forward, causal attention (half the square), with head");
  EXPECT_EQ(to_text({.mtp = false, .passes = 3.5}, shipped("deepseek_v3")),
            "3.5 times the forward, causal attention (half the square), with head and router, without MTP");
}

// A model of 1.5e13 parameters: nothing overflows.
TEST(Flops, SizesBeyond32Bits) {
  ModelSpec s{.vocab_size = 1000000, .hidden = 65536, .num_layers = 200};
  s.attention = {.num_heads = 512, .num_kv_heads = 512, .head_dim = 128};
  s.moe = {.num_experts = 4096, .expert_ffn = 8192, .router = {.top_k = 8}};
  const ParameterParts p = parameters_of(s, whole_model(s, false));
  // 200 x 4096 x 3 x 65536 x 8192.
  EXPECT_EQ(p.routed_experts, 1319413953331200);
  EXPECT_DOUBLE_EQ(flops_per_token(s, 1 << 20, {.passes = 1}).scores, 200.0 * 2 * 512 * 256 * (1 << 19));
}

}  // namespace
}  // namespace trireme::model
