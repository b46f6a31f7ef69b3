#include "sim/estimate/memory.h"

#include <gtest/gtest.h>

#include "plan/pipeline/generators.h"
#include "sim/estimate/described.h"
#include "sim/estimate/memory_states.h"

namespace trireme::sim {
namespace {

using plan::Recompute;
using plan::Sharding;

// A GPT of Korthikanti et al. 2022: two-matrix feed-forward of width 4h.
Setting gpt(int layers = 4, int hidden = 1024, int heads = 16) {
  Setting s;
  s.model.vocab_size = 51200;
  s.model.hidden = hidden;
  s.model.num_layers = s.model.num_dense_layers = layers;
  s.model.dense_ffn = 4 * hidden;
  s.model.gated = false;
  s.model.activation = model::Activation::gelu;
  s.model.attention.num_heads = s.model.attention.num_kv_heads = heads;
  s.model.attention.head_dim = hidden / heads;
  s.batch = {.sequence_length = 512, .micro_batch = 2, .global_batch = 16};
  s.layout.dp = 1;
  return s;
}

// Its stack: scores stored, dropout; norm statistics are left out there.
model::Kernels korthikanti() {
  model::Kernels p;
  p.flash_attention = false;
  p.dropout = true;
  p.norm_statistics = false;
  return p;
}

double saved(const Setting& s, const model::Kernels& p, plan::RecomputeSet recompute = {}) {
  const model::Share share = rank_share(s, p, 1);
  return model::run_tape(model::layer_tape(subject_of(s, p, share, recompute), 0)).saved;
}

// arXiv 2205.05198, equations 1 to 4 and table 2: bytes of a layer, s tokens, b sequences, h hidden, a heads, t ranks.
TEST(Activations, KorthikantisLayer) {
  const double s = 512, b = 2, h = 1024, a = 16, t = 8;
  Setting st = gpt();
  EXPECT_DOUBLE_EQ(saved(st, korthikanti()), s * b * h * (34 + 5 * a * s / h));
  st.layout.tp = 8;
  st.layout.sequence_parallel = false;
  EXPECT_DOUBLE_EQ(saved(st, korthikanti()), s * b * h * (10 + 24 / t + 5 * a * s / (h * t)));
  st.layout.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(saved(st, korthikanti()), s * b * h * (34 / t + 5 * a * s / (h * t)));
  plan::RecomputeSet core, layer;
  core.add(Recompute::core_attention);
  layer.add(Recompute::layer);
  EXPECT_DOUBLE_EQ(saved(st, korthikanti(), core), s * b * h * 34 / t);
  st.layout.sequence_parallel = false;
  EXPECT_DOUBLE_EQ(saved(st, korthikanti(), layer), 2 * s * b * h);
}

// Megatron-LM's documentation of its distributed optimizer: bf16 parameters with fp32 gradients take 18 bytes a
// parameter, 6 + 12 / d with it; d: ranks that the state is sharded over.
TEST(States, MegatronsBytesAParameter) {
  Setting s = gpt();
  s.layout.dp = 4;
  const model::Kernels p;
  WeightTable weights(s, p);
  const model::LayerRange all{.first_layer = 0, .num_layers = 4, .embed = true, .head = true};
  const StateBytes plain = state_bytes(weights, &all, 1, true);
  const double n = plain.elements.total();
  EXPECT_DOUBLE_EQ(plain.held(), 18 * n);
  s.layout.sharding = Sharding::optimizer;
  EXPECT_DOUBLE_EQ(state_bytes(weights, &all, 1, true).held(), (6 + 12.0 / 4) * n);
  s.layout.sharding = Sharding::gradients;
  EXPECT_DOUBLE_EQ(state_bytes(weights, &all, 1, true).held(), (2 + 16.0 / 4) * n);
  s.layout.sharding = Sharding::parameters;
  EXPECT_DOUBLE_EQ(state_bytes(weights, &all, 1, true).held(), 18.0 / 4 * n);
  s.layout.shard_degree = 2;  // hybrid: two copies of two shards
  EXPECT_DOUBLE_EQ(state_bytes(weights, &all, 1, true).held(), 18.0 / 2 * n);
}

// 1F1B, stage i of 4: 4 - i micro-batches in flight (Narayanan et al. 2021). Stages differ and are not averaged.
TEST(OverTime, EachStageHoldsItsOwnInFlightMicroBatches) {
  Setting s = gpt(8);
  s.layout.pp = 4;
  const model::Kernels p;
  const auto e = estimate_memory(s, plan::make_schedule("1f1b", 4, 16), p);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(e.stages[i].chunks_in_flight, 4 - i);
    EXPECT_EQ(e.stages[i].layers_in_flight, 2 * (4 - i));
  }
  EXPECT_GT(e.stages[1].needed_bytes, e.stages[2].needed_bytes);
  double sum = 0;
  for (const MemoryItem& i : e.stages[0].items)
    if (i.place == MemoryPlace::device) sum += i.bytes;
  EXPECT_NEAR(sum, e.stages[0].needed_bytes, 1e-9 * sum);
}

}  // namespace
}  // namespace trireme::sim
