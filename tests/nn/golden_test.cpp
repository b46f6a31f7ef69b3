// Against transformers' Mixtral and Qwen3-MoE in float64 (tools/make_goldens.py): the independent reference of the
// whole model, its import from config.json included.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "golden_file.h"
#include "helpers.h"
#include "model/hf_config.h"

namespace trireme::nn {
namespace {

struct Case {
  const char* file;
  bool reference;
};

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, LogitsLossAndEveryGradient) {
  const std::string name = std::string(GetParam().file) + ".safetensors";
  const GoldenFile golden = read_golden(std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/golden" / name);
  const model::ModelSpec spec = model::from_hf_config(nlohmann::json::parse(golden.metadata.at("config")), name);
  auto model = make_model(spec, at::kDouble, GetParam().reference, /*head_chunk_tokens=*/10);
  const std::size_t num_weights = fill_from_golden(*model, golden);
  // Weight, gradient; tokens, targets, logits.
  ASSERT_EQ(golden.tensors.size(), 2 * num_weights + 3);

  Batch batch = make_batch(2, 12, spec.vocab_size);
  batch.tokens_BS = golden.tensors.at("tokens");
  batch.targets_BS = golden.tensors.at("targets");
  {
    at::NoGradGuard no_grad;
    EXPECT_LE(relative_error(logits(*model, batch), golden.tensors.at("logits")), 1e-9);
  }
  const StepLosses losses = forward_backward(*model, batch, 1.0 / 24);
  const double expected = std::stod(golden.metadata.at("loss"));
  EXPECT_NEAR(losses.loss / 24, expected, 1e-9 * expected);
  for (Parameter* p : model->parameters())
    for (const Piece& piece : p->pieces)
      EXPECT_LE(relative_error(p->piece_grad(piece), golden.tensors.at("grad." + piece.spec.name)), 1e-9)
          << piece.spec.name;
}

INSTANTIATE_TEST_SUITE_P(All, Golden,
                         testing::Values(Case{"mixtral", true}, Case{"mixtral", false}, Case{"qwen3_moe", true},
                                         Case{"qwen3_moe", false}, Case{"qwen3_moe_dense_first", true},
                                         Case{"qwen3_moe_dense_first", false}),
                         [](const auto& info) {
                           return std::string(info.param.file) + (info.param.reference ? "_reference" : "_fused");
                         });

}  // namespace
}  // namespace trireme::nn
