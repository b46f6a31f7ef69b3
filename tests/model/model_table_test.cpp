#include "model/model_table.h"

#include <unistd.h>

#include <gmock/gmock.h>

#include <fstream>

#include "base/errors.h"

namespace trireme::model {
namespace {

namespace fs = std::filesystem;

const ModelCatalog& catalog() {
  static const ModelCatalog shipped(TRIREME_SOURCE_DIR "/configs/models");
  return shipped;
}

constexpr const char* header =
    "model,layers,dense_layers,moe_layers,hidden,heads,kv_heads,head_dim,attention_type,q_lora_rank,kv_lora_rank,"
    "qk_nope_dim,qk_rope_dim,v_head_dim,dense_ffn,n_experts,topk,expert_ffn,n_shared,shared_ffn,ffn_matrices,vocab,"
    "mtp_depth,tied_embeddings,notes\n";

class ModelTableTest : public ::testing::Test {
 protected:
  ModelTableTest() : folder_(fs::path(::testing::TempDir()) / ("trireme_model_table_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ModelTableTest() override { fs::remove_all(folder_); }

  ModelTable read(const std::string& rows, const std::string& aliases = "", const ModelCatalog* known = nullptr) {
    std::ofstream(folder_ / "models.csv") << header << rows;
    if (!aliases.empty()) std::ofstream(folder_ / "model_aliases.csv") << aliases;
    return read_model_table_csv(folder_ / "models.csv", known);
  }
  std::string error(const std::string& rows, const std::string& aliases = "") {
    try {
      read(rows, aliases);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  }
  std::string at(const char* name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(ModelTableTest, ReadsEachKindOfColumn) {
  const ModelTable table = read(
      "A,4,1,3,64,8,2,16,GQA,,,,,,96,8,2,32,1 (inferred),48,3,100,1,no,\n"
      "B,3,3,0,64,8,8,12,MLA,24,16,8,4,8,96,,,,,,2,100,,yes,\n"
      "C,4,2,2,64,8,8,8,\"GQA with sinks, alternating full / sliding-window 128\",,,,,,96,4,1,32,,,3,100,,no,dense and "
      "MoE layers alternate\n");
  const ModelSpec a = *table.find("A").spec;
  EXPECT_EQ(a, (ModelSpec{.name = "A",
                          .vocab_size = 100,
                          .hidden = 64,
                          .num_layers = 4,
                          .num_dense_layers = 1,
                          .dense_ffn = 96,
                          .attention = {.num_heads = 8, .num_kv_heads = 2, .head_dim = 16},
                          .moe = {.num_experts = 8, .expert_ffn = 32, .shared_ffn = 48, .router = {.top_k = 2}},
                          .mtp_depth = 1}));
  const ModelSpec b = *table.find("B").spec;
  EXPECT_EQ(b.attention.kind, AttentionKind::latent);
  EXPECT_EQ(b.attention.q_lora_rank, 24);
  EXPECT_EQ(b.attention.head_dim, 12);
  EXPECT_EQ(b.attention.value_dim(), 8);
  EXPECT_FALSE(b.gated);
  EXPECT_TRUE(b.tied_embeddings);
  const ModelSpec c = *table.find("C").spec;
  EXPECT_TRUE(c.attention.sinks);
  EXPECT_EQ(c.window(0), 128);
  EXPECT_EQ(c.window(1), 0);
  EXPECT_FALSE(c.is_moe(2));
  EXPECT_TRUE(c.is_moe(3));
}

TEST_F(ModelTableTest, AliasesCutModels) {
  const ModelTable table = read("V2,60,1,59,64,8,8,8,MHA,,,,,,96,8,2,32,,,3,100,1,no,\n",
                                "alias,model,layers,dense_layers,mtp_depth,note\n\"V2, cut\",V2,4,0,0,\n"
                                "V2 of 8,V2,8,,,\nv-2 again,V2,,,,\n");
  const ModelSpec cut = *table.find("V2, cut").spec;
  EXPECT_EQ(cut.num_layers, 4);
  EXPECT_EQ(cut.num_dense_layers, 0);
  EXPECT_EQ(cut.mtp_depth, 0);
  const ModelSpec eight = *table.find("V2 of 8").spec;
  EXPECT_EQ(eight.num_layers, 8);
  EXPECT_EQ(eight.num_dense_layers, 1);
  EXPECT_EQ(eight.mtp_depth, 1);
  EXPECT_EQ(*table.find("V2 OF 8").spec, eight);  // compared as model_key
  EXPECT_EQ(*table.find("v-2 again").spec, *table.find("V2").spec);
  EXPECT_EQ(table.find("V3").reason, "no architecture of this name is listed");
}

TEST_F(ModelTableTest, WhatCannotBeDescribedHasAReason) {
  const ModelTable table = read(
      "A,4,4,0,64,8,8,8,MHA,,,,,,96,,,,,,3,,,no,\n"
      "B,4,4,0,64,8,8,8,\"hybrid: something\",,,,,,96,,,,,,3,100,,no,\n"
      "C,4,4,0,64,8,3,8,GQA,,,,,,96,,,,,,3,100,,no,\n"
      "D,4,4,0,64,8,8,8,MHA,,,,,,96,,,,,,4,100,,no,\n"
      "E,4,0,4,64,8,8,8,MHA,,,,,,,8,,32,,,3,100,,no,\n");
  EXPECT_EQ(table.find("A").reason, "vocab is empty");
  EXPECT_EQ(table.find("B").reason, "its layers (hybrid: something) go beyond the table's columns");
  EXPECT_EQ(table.find("C").reason, "model.attention.num_kv_heads = 3: must divide model.attention.num_heads (8)");
  EXPECT_EQ(table.find("D").reason, "ffn_matrices is 4: 2 and 3 are known");
  EXPECT_EQ(table.find("E").reason, "topk is empty");
  for (const std::string& name : table.names()) EXPECT_FALSE(table.find(name).spec) << name;
}

// A file of aliases may lie beside a table that holds only some of their models.
TEST_F(ModelTableTest, AliasesOfModelsThatAreNotThere) {
  const std::string aliases = "alias,model,layers,dense_layers,mtp_depth\nb,B,2,,\nfour,DeepSeek-V3,4,,0\n";
  const ModelTable table = read("A,4,4,0,64,8,8,8,MHA,,,,,,96,,,,,,3,9,,no,\n", aliases, &catalog());
  EXPECT_TRUE(table.find("A").spec);
  EXPECT_EQ(table.find("b").reason, "it is another name of B, which has no row");
  ASSERT_TRUE(table.find("four").spec);
  EXPECT_EQ(table.find("four").spec->num_layers, 4);
  EXPECT_EQ(table.find("four").spec->hidden, catalog().model("deepseek_v3").hidden);
}

TEST_F(ModelTableTest, NotesSayWhatNoColumnDoes) {
  const ModelTable table = read(
      "A,4,0,4,64,8,8,8,GQA,,,,,,,8,2,32,1,48,3,100,0,no,biases on attention and experts\n"
      "B,4,0,4,64,8,8,8,GQA,,,,,,,8,2,32,1,48,3,100,0,no,QKV bias; shared expert gated; QK-norm\n"
      "C,4,4,0,64,8,8,8,GQA,,,,,,96,,,,,,2,100,0,no,sandwich norm; squared ReLU\n");
  const ModelSpec a = *table.find("A").spec, b = *table.find("B").spec, c = *table.find("C").spec;
  EXPECT_TRUE(a.attention.bias && a.attention.output_bias && a.moe.expert_bias && a.moe.router.bias);
  EXPECT_FALSE(a.moe.shared_gate || a.attention.qk_norm);
  EXPECT_TRUE(b.attention.bias && b.moe.shared_gate && b.attention.qk_norm);
  EXPECT_FALSE(b.attention.output_bias || b.moe.expert_bias);
  EXPECT_TRUE(c.sandwich_norms);
  EXPECT_EQ(c.activation, Activation::squared_relu);
}

TEST_F(ModelTableTest, NumbersAsSpreadsheetsWriteThem) {
  const ModelTable table = read("A,4.0,4.0,0.0,64.0,8.0,8.0,8.0,MHA,,,,,,96.0,,,,,,3.0,9.0,,no,\n");
  ASSERT_TRUE(table.find("A").spec);
  EXPECT_EQ(table.find("A").spec->hidden, 64);
}

TEST_F(ModelTableTest, ErrorsNameTheCell) {
  EXPECT_EQ(error("A,x,4,0,64,8,8,8,MHA,,,,,,96,,,,,,3,9,,no,\n"),
            at("models.csv") + ": line 2, column layers = x: expected a whole number of at least 0");
  EXPECT_EQ(error("A,4,4,0,64,8,8,8,MHA,,,,,,96,,,,,,3,9,,no,\nA,4,4,0,64,8,8,8,MHA,,,,,,96,,,,,,3,9,,no,\n"),
            at("models.csv") + ": line 3, column model = A: this name has a row already");
  EXPECT_EQ(error("A,4,4,0,64,8,8,8,MHA,,,,,,96,,,,,,3,9,,no,\n", "alias,model,layers\nb,A,0\n"),
            at("model_aliases.csv") + ": line 2, column layers = 0: expected a whole number of at least 1");
  std::ofstream(folder_ / "m.csv") << "model,layers\n";
  try {
    read_model_table_csv(folder_ / "m.csv");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_EQ(e.what(), at("m.csv") + ": dense_layers: this column is missing");
  }
}

// The catalog knows what the columns don't say, but only of a model with the same sizes.
TEST_F(ModelTableTest, ShippedDetailsForRowsOfTheSameSizes) {
  const std::string row = "GPT-OSS-20B,24,0,24,2880,64,8,64,GQA,,,,,,,32,4,2880,0,,3,201088,0,no,\n";
  const ModelTable table = read(row, "", &catalog());
  EXPECT_EQ(*table.find("GPT-OSS-20B").spec, catalog().model("gpt_oss_20b"));
  EXPECT_FALSE(read(row).find("GPT-OSS-20B").spec->moe.expert_bias);
  const ModelTable other =
      read("GPT-OSS-20B,24,0,24,2880,64,8,64,GQA,,,,,,,16,4,2880,0,,3,201088,0,no,\n", "", &catalog());
  EXPECT_EQ(other.find("GPT-OSS-20B").spec->moe.num_experts, 16);
  EXPECT_FALSE(other.find("GPT-OSS-20B").spec->moe.expert_bias);
}

// SimuMax's cuts: DeepSeek-V2 in 4 layers keeps its dense one, Llama 405B in 4 layers has 16 key/value heads.
TEST_F(ModelTableTest, CutsWithAFileOfTheirOwn) {
  const ModelTable table = read(
      "Llama3.1-405B,126,126,0,16384,128,8,128,GQA,,,,,,53248,,,,,,3,128256,0,no,\n"
      "DeepSeek-V2,60,1,59,5120,128,128,192,MLA,1536,512,128,64,128,12288,160,6,1536,2,3072,3,102400,0,no,\n",
      "alias,model,layers,dense_layers,mtp_depth,note\nllama3-405b (4 layers),Llama3.1-405B,4,,,\n"
      "llama3-405b cut to 4 layers,Llama3.1-405B,4,,,\nLlama3.1-405B (8 layers),Llama3.1-405B,8,,,\n"
      "deepseekv2 (4 layers),DeepSeek-V2,4,1,,\n",
      &catalog());
  EXPECT_EQ(table.find("llama3-405b (4 layers)").spec->attention.num_kv_heads, 16);
  EXPECT_EQ(table.find("llama3-405b cut to 4 layers").spec->attention.num_kv_heads, 16);
  EXPECT_EQ(table.find("Llama3.1-405B (8 layers)").spec->attention.num_kv_heads, 8);
  const ModelSpec v2 = *table.find("deepseekv2 (4 layers)").spec;
  EXPECT_EQ(v2.num_layers, 4);
  EXPECT_EQ(v2.num_moe_layers(), 3);
}

}  // namespace
}  // namespace trireme::model
