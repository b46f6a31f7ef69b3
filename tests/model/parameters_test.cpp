#include "model/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme::model {
namespace {

// Hidden 8, 2 heads of 4 with 1 key/value head, a dense layer of width 12, an MoE layer of 3 experts of width 5.
ModelSpec small() {
  ModelSpec s;
  s.vocab_size = 11;
  s.hidden = 8;
  s.num_layers = 2;
  s.num_dense_layers = 1;
  s.dense_ffn = 12;
  s.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4, .qk_norm = true};
  s.moe.num_experts = 3;
  s.moe.expert_ffn = 5;
  s.moe.shared_ffn = 6;
  s.moe.router.top_k = 2;
  return s;
}

const ParameterSpec& find(const std::vector<ParameterSpec>& all, const std::string& name) {
  for (const auto& p : all)
    if (p.name == name) return p;
  throw std::runtime_error("no parameter " + name);
}

TEST(Parameters, NamesInTheOrderOfTheHeader) {
  std::vector<std::string> names;
  for (const auto& p : parameters(small())) names.push_back(p.name);
  EXPECT_THAT(names,
              testing::ElementsAre(
                  "embed.weight", "layers.0.attention_norm.weight", "layers.0.attention.q.weight",
                  "layers.0.attention.k.weight", "layers.0.attention.v.weight", "layers.0.attention.o.weight",
                  "layers.0.attention.q_norm.weight", "layers.0.attention.k_norm.weight", "layers.0.ffn_norm.weight",
                  "layers.0.mlp.gate.weight", "layers.0.mlp.up.weight", "layers.0.mlp.down.weight",
                  "layers.1.attention_norm.weight", "layers.1.attention.q.weight", "layers.1.attention.k.weight",
                  "layers.1.attention.v.weight", "layers.1.attention.o.weight", "layers.1.attention.q_norm.weight",
                  "layers.1.attention.k_norm.weight", "layers.1.ffn_norm.weight", "layers.1.router.weight",
                  "layers.1.experts.0.gate.weight", "layers.1.experts.0.up.weight", "layers.1.experts.0.down.weight",
                  "layers.1.experts.1.gate.weight", "layers.1.experts.1.up.weight", "layers.1.experts.1.down.weight",
                  "layers.1.experts.2.gate.weight", "layers.1.experts.2.up.weight", "layers.1.experts.2.down.weight",
                  "layers.1.shared.gate.weight", "layers.1.shared.up.weight", "layers.1.shared.down.weight",
                  "final_norm.weight", "head.weight"));
}

TEST(Parameters, ShapesSegmentsAndDecay) {
  const auto all = parameters(small());
  EXPECT_THAT(find(all, "layers.1.attention.k.weight").shape, testing::ElementsAre(4, 8));  // 1 head of 4, hidden 8
  EXPECT_THAT(find(all, "layers.1.attention.o.weight").shape, testing::ElementsAre(8, 8));
  const auto& expert = find(all, "layers.1.experts.2.down.weight");
  EXPECT_THAT(expert.shape, testing::ElementsAre(8, 5));
  EXPECT_EQ(expert.expert, 2);
  EXPECT_EQ(expert.layer, 1);
  EXPECT_EQ(expert.segment, Segment::experts);
  EXPECT_EQ(find(all, "layers.1.shared.up.weight").expert, -1);
  EXPECT_EQ(find(all, "layers.0.ffn_norm.weight").segment, Segment::mlp);        // read by the mlp
  EXPECT_EQ(find(all, "layers.1.ffn_norm.weight").segment, Segment::attention);  // read by the router
  EXPECT_EQ(find(all, "layers.1.router.weight").segment, Segment::attention);
  EXPECT_EQ(find(all, "final_norm.weight").segment, Segment::head);
  EXPECT_FALSE(find(all, "final_norm.weight").weight_decay);
  EXPECT_EQ(find(all, "final_norm.weight").init, Init::ones);
  EXPECT_TRUE(find(all, "head.weight").weight_decay);
}

TEST(Parameters, BiasesFollowTheirMatrices) {
  ModelSpec s = small();
  s.attention.bias = true;
  const auto all = parameters(s);
  const auto& bias = find(all, "layers.0.attention.v.bias");
  EXPECT_THAT(bias.shape, testing::ElementsAre(4));
  EXPECT_EQ(bias.init, Init::zeros);
  EXPECT_FALSE(bias.weight_decay);
  EXPECT_THROW(find(all, "layers.0.attention.o.bias"), std::runtime_error);
  s.attention.output_bias = true;
  EXPECT_THAT(find(parameters(s), "layers.0.attention.o.bias").shape, testing::ElementsAre(8));
}

TEST(Parameters, CountsByHand) {
  // Ends: embed 88, head 88, final norm 8. Attention of a layer: q 64, k 32, v 32, o 64 = 192; norms 8 + 8 + 4 + 4
  // = 24. Dense mlp: 3 * 12 * 8 = 288. MoE layer: router 24, an expert 3 * 5 * 8 = 120, shared 3 * 6 * 8 = 144.
  const auto counts = count_parameters(small());
  EXPECT_EQ(counts.total, 88 + 88 + 8 + 2 * (192 + 24) + 288 + 24 + 3 * 120 + 144);
  EXPECT_EQ(counts.routed_experts, 360);
  EXPECT_EQ(counts.active, counts.total - 120);  // two of three experts
  EXPECT_EQ(counts.active_matmul, 88 + 2 * 192 + 288 + 24 + 2 * 120 + 144);
}

TEST(Parameters, TiedTableIsHeldOnceAndMultipliesInTheHead) {
  ModelSpec s = small();
  const auto untied = count_parameters(s);
  s.tied_embeddings = true;
  const auto tied = count_parameters(s);
  EXPECT_EQ(tied.total, untied.total - 88);
  EXPECT_EQ(tied.active_matmul, untied.active_matmul);
  EXPECT_THROW(find(parameters(s), "head.weight"), std::runtime_error);
}

// Mixtral 8x7B: 46,702,792,704 parameters, 12,879,925,248 active (Jiang et al. 2024 say 47B and 13B; the exact figures
// follow from its config.json: 32 layers, hidden 4096, 32 heads and 8 key/value heads of 128, ffn 14336, 8 experts top
// 2, vocabulary 32000, untied).
TEST(Parameters, Mixtral8x7B) {
  ModelSpec s;
  s.vocab_size = 32000;
  s.hidden = 4096;
  s.num_layers = 32;
  s.attention = {.num_heads = 32, .num_kv_heads = 8, .head_dim = 128};
  s.moe.num_experts = 8;
  s.moe.expert_ffn = 14336;
  s.moe.router.top_k = 2;
  EXPECT_EQ(count_parameters(s).total, 46702792704);
  EXPECT_EQ(count_parameters(s).active, 12879925248);
}

TEST(Parameters, TrainingFlopsAToken) {
  // 6 * active matmul (1168 of CountsByHand) + 12 * 16 * 2 heads * 4 / 2 * 2 layers.
  EXPECT_DOUBLE_EQ(training_flops_per_token(small(), 16), 6.0 * 1168 + 12.0 * 16 * 8 / 2 * 2);
}

TEST(Parameters, NamesAreUnique) {
  std::set<std::string> names;
  for (const auto& p : parameters(small())) EXPECT_TRUE(names.insert(p.name).second) << p.name;
}

}  // namespace
}  // namespace trireme::model
