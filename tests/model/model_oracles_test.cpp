// Parameter counts of the shipped models against published ones.
#include <gtest/gtest.h>

#include <cmath>

#include "base/csv_table.h"
#include "model/model_catalog.h"
#include "model/model_table.h"
#include "model/parameter_parts.h"
#include "model/parameters.h"

namespace trireme::model {
namespace {

const ModelCatalog& catalog() {
  static const ModelCatalog shipped(TRIREME_SOURCE_DIR "/configs/models");
  return shipped;
}

constexpr const char* golden = TRIREME_SOURCE_DIR "/tests/golden/model_configs.csv";

// What the table's own computation counted: matrices, so no norms, biases, positions or convolutions, and no MTP block.
double matrices(const ModelSpec& spec, bool active) {
  double total = 0;
  for (const ParameterSpec& p : parameters(spec)) {
    const bool matrix =
        p.shape.size() == 2 && !p.name.starts_with("positions") && p.name.find("convolution") == std::string::npos;
    if (!matrix || p.layer >= spec.num_layers) continue;
    const bool routed = p.expert >= 0;
    const double used = active && routed ? double{1} * spec.moe.router.top_k / spec.moe.num_experts : 1.0;
    total += used * static_cast<double>(p.count());
  }
  return total;
}

// Every row of the collected table with a figure: equal to the two decimals that it gives.
TEST(ModelOracles, EveryRowOfTheCollectedTable) {
  const CsvTable rows = CsvTable::from_file(golden);
  const ModelTable table = read_model_table_csv(golden, &catalog());
  int compared = 0;
  for (std::size_t row = 0; row < rows.num_rows(); ++row) {
    const std::string& name = rows.text(row, "model");
    const TableModel model = table.find(name);
    ASSERT_TRUE(model.spec) << name << ": " << model.reason;
    const auto total = rows.number(row, "params_total_b_computed"),
               active = rows.number(row, "params_active_b_computed");
    if (!total) continue;
    ++compared;
    // Half of the last decimal, and what a double loses in 1e12.
    EXPECT_NEAR(matrices(*model.spec, false) / 1e9, *total, 0.00501) << name;
    EXPECT_NEAR(matrices(*model.spec, true) / 1e9, *active, 0.00501) << name;
  }
  EXPECT_EQ(rows.num_rows(), 57u);
  EXPECT_EQ(compared, 47);
}

TEST(ModelOracles, ClosedFormsCountWhatTheListHolds) {
  for (const std::string& name : catalog().names()) {
    const ModelSpec& spec = catalog().model(name);
    std::int64_t listed = 0, routed = 0;
    for (const ParameterSpec& p : parameters(spec)) {
      listed += p.count();
      routed += p.expert >= 0 ? p.count() : 0;
    }
    const ParameterParts parts = parameters_of(spec, whole_model(spec, /*mtp=*/true));
    EXPECT_EQ(parts.total(), listed) << name;
    EXPECT_EQ(parts.routed_experts, routed) << name;
  }
}

struct Published {
  const char* file;
  std::int64_t total;
};

// Sizes of the released checkpoints: Hugging Face's safetensors index or transformers' num_parameters().
TEST(ModelOracles, ReleasedCheckpointsToTheParameter) {
  for (const auto& [file, total] : {Published{"mixtral_8x7b", 46702792704},
                                    {"qwen3_30b_a3b", 30532122624},
                                    {"qwen3_235b_a22b", 235093634560},
                                    {"gpt_oss_20b", 20914757184},
                                    {"gpt_oss_120b", 116829156672},
                                    {"olmoe_1b_7b", 6919161856},
                                    {"llama3_1_8b", 8030261248},
                                    {"llama3_1_70b", 70553706496},
                                    {"llama3_1_405b", 405853388800},
                                    {"llama2_7b", 6738415616},
                                    {"qwen3_next_80b_a3b", 79674391296}})
    EXPECT_EQ(count_parameters(catalog().model(file)).total, total) << file;
  // DeepSeek-V3's index has 671,026,419,200, with the 256 selection biases of each of 58 routers: state, not
  // parameters.
  EXPECT_EQ(count_parameters(catalog().model("deepseek_v3")).total, 671026419200 - 58 * 256);
}

// EUROPA's reconstruction, part by part: 74 x 384 experts of 3 x 6144 x 1792; attention 74 x (2 x 6144 x 6144 +
// 2 x 6144 x 2048 + 2 x 128); two tables of 262,144 x 6144; and so on.
TEST(ModelOracles, EuropaByPart) {
  const ModelSpec& spec = catalog().model("europa_951b");
  const ParameterParts parts = parameters_of(spec, whole_model(spec, true));
  EXPECT_EQ(parts.routed_experts, 938584571904);
  EXPECT_EQ(parts.attention, 7449102848);
  EXPECT_EQ(parts.embedding + parts.head, 3221225472);
  EXPECT_EQ(parts.shared_experts, 2444230656);
  EXPECT_EQ(parts.router, 174587904);
  EXPECT_EQ(parts.norms, 915456);
  EXPECT_EQ(parts.total(), 951874634240);
  EXPECT_EQ(count_parameters(spec).active, 32843907584);
}

// Both conventions of "active": with both embeddings, and without the input one.
TEST(ModelOracles, ActiveParametersInBothConventions) {
  const auto expect = [](const char* file, double with, double without) {
    const ParameterCounts counts = count_parameters(catalog().model(file));
    EXPECT_NEAR(static_cast<double>(counts.active) / 1e9, with, 0.0051) << file;
    EXPECT_NEAR(static_cast<double>(counts.active_without_embedding) / 1e9, without, 0.0061) << file;
  };
  expect("pangu_ultra_moe", 40.37, 39.19);
  expect("deepseek_v3", 37.55, 36.62);
  expect("europa_951b", 32.84, 31.23);
  EXPECT_NEAR(static_cast<double>(count_parameters(catalog().model("pangu_ultra_moe")).total) / 1e9, 719.09, 0.005);
  // With the MTP block and its projection: 731.5 B.
  const ModelSpec& pangu = catalog().model("pangu_ultra_moe");
  EXPECT_NEAR(static_cast<double>(parameters_of(pangu, whole_model(pangu, true)).total()) / 1e9, 731.5, 0.05);
}

// X-MoE's table counts L (2 E d f + 4 d^2 + E d) in units of 2^30: everything but the ends and the norms.
TEST(ModelOracles, XMoeFamily) {
  const auto layers = [](const char* file) {
    const ParameterParts p = parameters_of(catalog().model(file), whole_model(catalog().model(file), true));
    return static_cast<double>(p.attention + p.router + p.routed_experts) / (1 << 30);
  };
  // The published 545.4 is 0.02 % below its own formula, 545.53.
  EXPECT_NEAR(layers("x_moe_small"), 10.1, 0.05);
  EXPECT_NEAR(layers("x_moe_medium"), 55.2, 0.06);
  EXPECT_NEAR(layers("x_moe_large"), 201.4, 0.05);
  EXPECT_NEAR(layers("x_moe_super"), 545.4, 0.14);
}

// Piper's sizes, 110 B, 862 B and 1.7 T, follow from L (2 E d f + 4 d^2) with L 32, d 5120, f 20480.
TEST(ModelOracles, PiperFamily) {
  const auto layers = [](const char* file) {
    const ParameterParts p = parameters_of(catalog().model(file), whole_model(catalog().model(file), true));
    return p.attention + p.routed_experts;
  };
  EXPECT_EQ(layers("piper_110b"), 110729625600);
  EXPECT_EQ(layers("piper_862b"), 862348902400);
  EXPECT_EQ(layers("piper_1700b"), 1721342361600);
}

// ERNIE 4.5 is published as 300 B with 47 B active; Nemotron-H as 56 B, DeepSeek-V4-Flash as 284 B with 13 B.
TEST(ModelOracles, RoundedReleases) {
  const auto billions = [](const char* file) {
    const ParameterCounts counts = count_parameters(catalog().model(file));
    return std::pair(std::round(static_cast<double>(counts.total) / 1e9),
                     std::round(static_cast<double>(counts.active_without_embedding) / 1e9));
  };
  EXPECT_EQ(billions("ernie_4_5_300b_a47b"), std::pair(299.0, 47.0));
  EXPECT_EQ(billions("nemotron_h_56b").first, 56.0);
  EXPECT_EQ(billions("deepseek_v4_flash"), std::pair(284.0, 13.0));
}

}  // namespace
}  // namespace trireme::model
