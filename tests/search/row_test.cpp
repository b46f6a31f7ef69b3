#include "search/validation/row.h"

#include <algorithm>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "base/errors.h"
#include "model/parameter_parts.h"
#include "search/validation/resolve_row.h"
#include "search/validation/stack_facts.h"

namespace trireme::search {
namespace {

class Rows : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path file(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  const std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) / ("rows_" + std::to_string(::getpid()) + ".csv");
};

const std::string throughput_header =
    "id,source_file_or_url,model,hardware,n_devices,precision,tp,pp,micro_batch,global_batch,seq_len,tokens_per_s_per_"
    "device,"
    "tflops_per_device,mfu_percent,step_time_s,scorable\n";

TEST_F(Rows, ThroughputKeepsTheTimedValue) {
  const auto rows = read_rows(file(throughput_header + "a,s,m,H100,8,BF16,1,1,1,8,2048,100,20,2,0.5,yes\n"
                                                       "b,s,m,H100,8,BF16,1,1,1,8,2048,,20,2,,yes\n"
                                                       "c,s,m,H100,8,BF16,1,1,1,8,2048,,,,,yes\n"));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].quantity, Quantity::step_s);
  EXPECT_EQ(rows[0].measured, 0.5);
  EXPECT_EQ(rows[1].quantity, Quantity::tflops);
  EXPECT_EQ(rows[2].scorable, "yes");  // to be predicted
  EXPECT_EQ(rows[2].quantity, Quantity::tokens_per_s);
  EXPECT_EQ(rows[2].unit, "tokens/s/device");
  EXPECT_EQ(rows[2].measured, 0);
}

TEST_F(Rows, OneValueARowIsKnownByItsLine) {
  const auto rows =
      read_rows(file("source,model,hardware,n_gpus,measured_value,unit,scorable\n"
                     "s,m,A100,8,1.42,s/iter,yes\n"
                     "s,m,A100,8,OOM,ms/iter or OOM,no: why not\n"
                     "s,m,A100,8,,s/iter,yes\n"));
  EXPECT_EQ(rows[0].id, "2");
  EXPECT_EQ(rows[1].id, "3");
  EXPECT_EQ(rows[1].scorable, "no: why not");
  EXPECT_EQ(rows[2].scorable, "yes");
  EXPECT_EQ(rows[2].unit, "s/iter");
}

TEST_F(Rows, OtherColumnsAreAnError) {
  EXPECT_THROW(read_rows(file("a,b\n1,2\n")), ConfigError);
  EXPECT_THROW(read_rows(file("model,hardware,n_devices\nm,H100,8\n")), ConfigError);  // nothing measured
  EXPECT_EQ(read_rows(file("step_time_s,n_devices,hardware,model\n2.5,8.0,H100,m\n"))[0].measured, 2.5);
}

// One bad cell is a reason not to predict its row, and no reason to refuse the others.
TEST_F(Rows, ACellThatIsNoNumberIsItsRowsOwn) {
  const auto rows = read_rows(file(throughput_header + "a,s,m,H100,-8,BF16,1,1,1,8,2048,1,1,1,1,yes\n" +
                                   "b,s,m,H100,8,BF16,1,1,1,2-4,2048,1,1,1,1,yes\n" +
                                   "c,s,m,H100,8,BF16,1,1,varies,8,2048,1,1,1,1,no: not one batch\n" +
                                   "d,s,m,H100,8,BF16,1,1,1,8,2048,,,,0,yes\n"));
  EXPECT_EQ(rows[0].scorable, "no: n_devices = \"-8\" is not a whole number of at least 1");
  EXPECT_EQ(rows[1].scorable, "no: global_batch = \"2-4\" is not a whole number of at least 1");
  EXPECT_EQ(rows[2].scorable, "no: not one batch");
  EXPECT_EQ(rows[3].scorable, "no: step_time_s = \"0\" is not above 0");
}

TEST(PipelineLayout, MegatronsNotationExpands) {
  // One embedding and 4 layers, 14 pieces of 4, the last with one: 61 layers on 16 pieces.
  const auto layers = pipeline_layout("hybridep; pp_layout Et*4|(t*4|)*14tmL", 16, 61);
  ASSERT_EQ(layers.size(), 16u);
  EXPECT_EQ(layers.front(), 4);
  EXPECT_EQ(layers[7], 4);
  EXPECT_EQ(layers.back(), 1);
  EXPECT_TRUE(pipeline_layout("hybridep; pp_layout Et*4|(t*4|)*14tmL", 8, 61).empty());
  EXPECT_TRUE(pipeline_layout("no such thing", 16, 61).empty());
}

TEST(PipelineLayout, UnevenPiecesLeaveRoomAtTheEnd) {
  // As Megatron-Bridge cuts DeepSeek-V3's 61 layers and its MTP block: 4 x 16 pieces with 1 on the last, 8 x 8 with 5.
  EXPECT_EQ(uneven_pieces(16, 61, 1).back(), 1);
  EXPECT_EQ(uneven_pieces(16, 61, 1).front(), 4);
  EXPECT_EQ(uneven_pieces(8, 61, 1).back(), 5);
  EXPECT_EQ(uneven_pieces(4, 61, 1), (std::vector<std::int64_t>{16, 16, 16, 13}));
  EXPECT_TRUE(uneven_pieces(4, 64, 1).empty());
  for (int pieces : {2, 3, 5, 7, 16, 31, 32}) {
    std::int64_t sum = 0;
    for (std::int64_t n : uneven_pieces(pieces, 61, 0)) sum += n;
    EXPECT_EQ(sum, pieces == 1 ? 0 : 61) << pieces;
  }
}

TEST(StackFacts, SourcesNameTheirRelease) {
  Row row;
  row.source = "Megatron-Bridge performance-summary 26.04.01 NeMo Container (measured)";
  EXPECT_EQ(facts_of(row).name, "megatron_bridge_26.04.01");
  row.source = "github:NVIDIA-NeMo/Megatron-Bridge@067f987df0:docs", row.notes = "container NeMo 25.09; more";
  EXPECT_EQ(facts_of(row).name, "megatron_bridge_25.09");
  row.source = "somebody's own", row.notes = "";
  EXPECT_EQ(facts_of(row).name, "");
}

// A source without a rule of its own is known by the software that its row names.
TEST(StackFacts, WordsNameAFamily) {
  Row row;
  row.source = "github:somebody/logs", row.notes = "Megatron-LM dev branch";
  EXPECT_EQ(facts_of(row).name, "megatron_core_2025");
  row.notes = "", row.sharding = "FSDP2";
  EXPECT_EQ(facts_of(row).name, "torchtitan_compile");
  EXPECT_EQ(facts_of(row).sharding, plan::Sharding::parameters);
  row.sharding = "", row.overlap = "MindSpeed, no overlap";
  EXPECT_EQ(facts_of(row).name, "mindspeed_llm");
}

TEST(StackFacts, HardwareNamesPlatforms) {
  Row row;
  row.hardware = "DGX-GB300";
  EXPECT_EQ(platform_of(row), "gb300_nvl72");
  row.hardware = "H100-96GB-HBM2e (500W)";
  EXPECT_EQ(platform_of(row), "h100_96gb_hbm2e");
  row.hardware = "h200 x 8";
  EXPECT_EQ(platform_of(row), "dgx_h200");
  row.hardware = "8x A100-80GB PCIe";
  EXPECT_EQ(platform_of(row), "a100_pcie");
  row.hardware = "H100 PCIe";  // slower than the module, and no file describes it
  EXPECT_EQ(platform_of(row), "");
  row.hardware = "abacus";
  EXPECT_EQ(platform_of(row), "");
}

// A row that contradicts itself is still predicted, as near as its ranks allow, and says so.
TEST(Resolve, BendsWhatDoesNotFit) {
  Row row;
  row.source = "vTrain", row.model = "GPT h=2048 L=24 a=16", row.hardware = "A100", row.precision = "fp16", row.scorable = "yes";
  row.devices = 8, row.tp = 2, row.pp = 2, row.micro_batch = 2, row.global_batch = 9, row.sequence = 1024;
  const FindModel none = [](const std::string&, std::string&) { return std::optional<model::ModelSpec>(); };
  const ResolvedRow r = resolve(row, none);
  EXPECT_EQ(r.skipped, "");
  // 2 data ranks with micro-batches of 2: 8 of the 9 sequences run.
  EXPECT_EQ(r.setting.layout.dp, 2);
  EXPECT_EQ(r.setting.batch.global_batch, 8);
  EXPECT_DOUBLE_EQ(r.counted_share, 9.0 / 8);
  EXPECT_NE(std::find(r.assumptions.begin(), r.assumptions.end(), "global batch"), r.assumptions.end());
  row.tp = 3;
  EXPECT_NE(resolve(row, none).skipped, "");
  // 8 devices, 2 stages and 2 data ranks leave 2 tensor ranks.
  row.tp.reset(), row.dp = 2, row.global_batch = 8;
  const ResolvedRow derived = resolve(row, none);
  EXPECT_EQ(derived.setting.layout.tp, 2);
  EXPECT_EQ(derived.assumptions, std::vector<std::string>{"recompute"});
}

const FindModel find_mixture = [](const std::string&, std::string&) {
  model::ModelSpec m;
  m.vocab_size = 1000, m.hidden = 512, m.num_layers = 8;
  m.attention = {.num_heads = 8, .num_kv_heads = 8, .head_dim = 64};
  m.moe = {.num_experts = 8, .expert_ffn = 512};
  return std::optional(m);
};

// Experts' messages can run beside another micro-batch only where a forward is joined with a backward.
TEST(Resolve, OverlappedExpertsJoinForwardsWithBackwards) {
  Row row;
  row.source = "Megatron-Bridge", row.model = "moe", row.hardware = "H100", row.precision = "bf16", row.scorable = "yes";
  row.devices = 16, row.pp = 2, row.vpp = 2, row.tp = 1, row.ep = 8, row.micro_batch = 1, row.global_batch = 64,
  row.sequence = 1024;
  EXPECT_EQ(resolve(row, find_mixture).setting.layout.schedule, "interleaved_1f1b");
  row.overlap = "EP a2a overlap";
  EXPECT_EQ(resolve(row, find_mixture).setting.layout.schedule, "merged_1f1b");
  EXPECT_EQ(resolve(row, find_mixture).setting.layout.virtual_stages, 2);
}

TEST(Resolve, SaysWhatItCouldNotTakeAsItStands) {
  Row row;
  row.source = "x", row.model = "moe", row.hardware = "H100", row.precision = "bf16", row.scorable = "yes";
  row.devices = 14, row.pp = row.tp = 1, row.ep = 7, row.dp = 5, row.micro_batch = 1, row.global_batch = 14,
  row.sequence = 1024, row.sharding = "FSDP", row.overlap = "DeepEP";
  row.recompute = "what the authors like";
  EXPECT_EQ(resolve(row, find_mixture).assumptions,
            (std::vector<std::string>{"data degree", "experts in unequal parts", "recompute"}));
  row.recompute = "Full";
  EXPECT_TRUE(resolve(row, find_mixture).setting.layout.recompute.has(plan::Recompute::layer));
  row.dp = 14, row.ep = 2, row.recompute = "layernorm, moe_act";
  const ResolvedRow r = resolve(row, find_mixture);
  EXPECT_TRUE(r.assumptions.empty());
  EXPECT_TRUE(r.setting.layout.recompute.has(plan::Recompute::norm));
  EXPECT_TRUE(r.setting.layout.recompute.has(plan::Recompute::activation));
}

TEST(Resolve, KnowsWhatSelectiveMeansToTorchtitan) {
  Row row{.id = "a", .source = "pytorch/torchtitan", .model = "m", .hardware = "H100", .precision = "BF16"};
  row.devices = 8, row.micro_batch = 1, row.global_batch = 8, row.sequence = 4096, row.scorable = "yes";
  row.measured = 1, row.recompute = "selective (op)";
  model::ModelSpec m = *gpt_by_sizes("GPT h=1024 L=4 a=8");
  const FindModel find = [&](const std::string&, std::string&) { return std::optional(m); };
  // Every second matmul of what is not an expert; nothing of the experts is on the list of what survives.
  ResolvedRow r = resolve(row, find);
  ASSERT_EQ(r.skipped, "");
  EXPECT_TRUE(r.setting.execution.alternate_matmuls);
  EXPECT_FALSE(r.setting.layout.recompute.has(plan::Recompute::moe));
  m.moe.num_experts = 8, m.moe.router.top_k = 2, m.moe.expert_ffn = 512, m.num_dense_layers = 0;
  r = resolve(row, find);
  ASSERT_EQ(r.skipped, "");
  EXPECT_TRUE(r.setting.layout.recompute.has(plan::Recompute::moe));
  row.recompute = "selective layer";
  EXPECT_FALSE(resolve(row, find).setting.execution.alternate_matmuls);
}

TEST(Resolve, MegatronsMixturesDoNotOverlapTensorMessages) {
  Row row{.id = "a", .source = "NVIDIA-NeMo/Megatron-Bridge 26.04", .model = "m", .hardware = "H100", .precision = "BF16"};
  row.devices = 8, row.tp = 2, row.micro_batch = 1, row.global_batch = 8, row.sequence = 4096, row.scorable = "yes";
  row.measured = 1;
  model::ModelSpec m = *gpt_by_sizes("GPT h=1024 L=4 a=8");
  const FindModel find = [&](const std::string&, std::string&) { return std::optional(m); };
  EXPECT_TRUE(resolve(row, find).setting.layout.overlap.tensor);
  m.moe.num_experts = 8, m.moe.router.top_k = 2, m.moe.expert_ffn = 512, m.num_dense_layers = 0;
  EXPECT_FALSE(resolve(row, find).setting.layout.overlap.tensor);
  row.overlap = "TP overlap";
  EXPECT_TRUE(resolve(row, find).setting.layout.overlap.tensor);
}

TEST(GptBySizes, HasItsParameters) {
  // 12 L h^2 + 13 L h + (V + s) h + 2 h with V 51200 and s 2048 (Narayanan et al. 2021, equation 2).
  const auto m = gpt_by_sizes("GPT h=2048 L=24 a=16");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->dense_ffn, 8192);
  EXPECT_EQ(m->attention.head_dim, 128);
  const double h = 2048, L = 24, V = 51200, positions = 2048;
  EXPECT_DOUBLE_EQ(double(model::parameters_of(*m, model::whole_model(*m, false)).total()),
                   12 * L * h * h + 13 * L * h + (V + positions) * h + 2 * h);
  EXPECT_FALSE(gpt_by_sizes("GPT h=2048 L=24"));
  EXPECT_FALSE(gpt_by_sizes("GPT h=2048 L=24 a=17"));
}

}  // namespace
}  // namespace trireme::search
