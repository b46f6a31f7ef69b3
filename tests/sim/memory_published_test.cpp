// Figures that others published, with their derivations. Sources: SimuMax v1.2 (B200, Megatron-LM core 0.14,
// Transformer Engine 2.11), Piper (arXiv 2605.05049), EUROPA on JUPITER, Pangu Ultra MoE (arXiv 2505.04519).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "model/model_spec.h"
#include "plan/pipeline/generators.h"
#include "sim/estimate/memory.h"
#include "sim/estimate/described.h"
#include "sim/estimate/memory_states.h"

namespace trireme::sim {
namespace {

using plan::Recompute;
using plan::Sharding;
using plan::Swap;

model::ModelSpec named(const std::string& name) {
  return model::load_model(TRIREME_SOURCE_DIR "/configs/models/" + name + ".toml");
}

double item(const StageMemory& stage, const std::string& name) {
  double bytes = 0;
  for (const MemoryItem& i : stage.items)
    if (i.name == name) bytes += i.bytes;
  return bytes;
}

MemoryEstimate one_f_one_b(const Setting& s, const model::Kernels& p, const MemoryOptions& options = {}) {
  const int dp = data_ranks(s).dense / s.layout.cp;
  return estimate_memory(s, plan::make_schedule("1f1b", s.layout.pp, static_cast<int>(s.batch.num_micro_batches(dp))),
                         p, options);
}

struct B200Row {
  const char* model;
  int layers, dense_layers, tp, pp, ep, cp, dp;
  std::int64_t global_batch, sequence;
  double allocated_GiB;
};

// Highest torch.cuda.max_memory_allocated of the eight ranks. docs/memory.md says which values of the kernels were set
// by these figures: `fragmentation`, which `allocated` has no part in, and 16 MiB of the head's workspace.
TEST(Published, AllocatedOnB200) {
  const B200Row rows[] = {
      {"llama3_1_70b", 12, 12, 1, 2, 1, 1, 4, 16, 4096, 66.55},
      {"llama3_1_70b", 12, 12, 2, 1, 1, 1, 4, 16, 4096, 60.68},
      {"llama3_1_70b", 12, 12, 4, 1, 1, 1, 2, 8, 4096, 39.07},
      {"llama3_1_70b", 12, 12, 8, 1, 1, 1, 1, 4, 4096, 28.29},
      {"deepseek_v3", 4, 1, 1, 1, 8, 1, 8, 32, 4096, 104.3},
      {"deepseek_v3", 4, 1, 1, 2, 4, 1, 4, 16, 4096, 114.0},
      {"llama3_1_70b", 12, 12, 2, 1, 1, 4, 1, 4, 32768, 68.43},
      {"llama3_1_70b", 12, 12, 1, 1, 1, 8, 1, 4, 32768, 104.51},
      {"llama3_1_70b", 12, 12, 2, 1, 1, 4, 1, 4, 131072, 112.67},
      {"llama3_1_70b", 12, 12, 1, 1, 1, 8, 1, 4, 131072, 147.99},
  };
  for (const B200Row& r : rows) {
    Setting s;
    s.model = model::with_layers(named(r.model), r.layers, r.dense_layers);
    s.model.mtp_depth = 0;
    s.layout.tp = r.tp, s.layout.pp = r.pp, s.layout.ep = r.ep, s.layout.cp = r.cp, s.layout.dp = r.dp;
    s.layout.sharding = Sharding::optimizer;
    s.batch = {.sequence_length = r.sequence, .micro_batch = 1, .global_batch = r.global_batch};
    s.num_devices = 8;
    const MemoryEstimate e = one_f_one_b(s, model::find_kernels("megatron"));
    EXPECT_NEAR(e.allocated_bytes() / GiB / r.allocated_GiB, 1, 0.002)
        << r.model << " tp " << r.tp << " pp " << r.pp << " cp " << r.cp;
  }
}

// Piper, section on the resource model: 64 d^2 + 48 E d f / EP bytes of states a layer (16 a parameter: fp16 weights
// and gradients, fp32 master and moments), and 12 b s d + 2 b s k (3 f + d) bytes of activations for each micro-batch
// that is in flight: PP - i of them on stage i. Its tensors: input, normed input, q, k, v and output of the attention;
// the routed rows, both halves and the product of the experts. We keep more (the stream between the blocks, the
// router), by name.
TEST(Published, PipersStages) {
  const double d = 1024, f = 512, E = 16, EP = 4, k = 2, s = 512, b = 2, L = 8, PP = 4;
  Setting st;
  st.model.vocab_size = 32000, st.model.hidden = static_cast<int>(d), st.model.num_layers = static_cast<int>(L);
  st.model.attention.num_heads = st.model.attention.num_kv_heads = 16, st.model.attention.head_dim = 64;
  st.model.moe.num_experts = static_cast<int>(E), st.model.moe.expert_ffn = static_cast<int>(f);
  st.model.moe.router.top_k = static_cast<int>(k);
  st.layout.pp = static_cast<int>(PP), st.layout.ep = st.layout.dp = static_cast<int>(EP);
  st.batch = {
      .sequence_length = static_cast<std::int64_t>(s), .micro_batch = static_cast<std::int64_t>(b), .global_batch = 64};
  st.precision.gradient_bytes = 2;
  const MemoryEstimate e = one_f_one_b(st, model::Kernels{});
  const double states = L / PP * (64 * d * d + 48 * E * d * f / EP);
  const double norms_and_router = 16 * L / PP * (2 * d + E * d);
  EXPECT_DOUBLE_EQ(e.stages[1].state_bytes, states + norms_and_router);
  for (int i = 0; i < 4; ++i) {
    const double n = PP - i, layers = L / PP;
    const StageMemory& stage = e.stages[i];
    ASSERT_EQ(stage.chunks_in_flight, n);
    EXPECT_DOUBLE_EQ(item(stage, "queries") + item(stage, "keys") + item(stage, "values") +
                         item(stage, "attention output") + item(stage, "normed input") +
                         item(stage, "residual stream") / 2,
                     n * layers * 12 * b * s * d);
    EXPECT_DOUBLE_EQ(
        item(stage, "rows by expert") + item(stage, "feed-forward's first outputs") + item(stage, "experts' gated"),
        n * layers * 2 * b * s * k * (3 * f + d));
  }
  // Stages of the middle differ by one micro-batch: the paper's dM.
  double activations = 0;
  for (const MemoryItem& i : e.stages[2].items)
    if (i.group == "activations") activations += i.bytes;
  EXPECT_NEAR(e.stages[1].allocated_bytes - e.stages[2].allocated_bytes, activations / 2, 1);
}

// 74 layers of 65,536 x 6,144 bf16 are 55.5 GiB of layer inputs; a quarter of 384 experts of 3 x 1,792 x 6,144 are 5.91
// GiB in bf16; 951.87 B parameters over 384 ranks are 9.23 GiB in fp32. 96 GB a GPU, 120 GB of host memory.
TEST(Published, EuropasCheckpointsAndGatheredExperts) {
  Setting s;
  s.model = named("europa_951b");
  s.num_devices = 384;
  s.layout.dp = 384, s.layout.ep = 4;
  s.layout.sharding = Sharding::parameters;
  s.layout.matrix_owners = true;
  s.layout.recompute.add(Recompute::layer);
  s.batch = {.sequence_length = 65536, .micro_batch = 1, .global_batch = 384};
  s.precision = {.weight_bytes = 4, .gradient_bytes = 4, .master_bytes = 0, .moment_bytes = 4, .reduce_bytes = 2};
  model::Kernels p = model::find_kernels("torchtitan");
  p.loss = model::LossKind::chunked;
  p.gathered_layers = p.reduced_layers = 1;  // asynchronous unshard: nothing waits in a second buffer
  const MemoryOptions options{.capacity_bytes = 96e9, .host_capacity_bytes = 120e9};

  const MemoryEstimate kept = one_f_one_b(s, p, options);
  EXPECT_FALSE(kept.feasible);
  s.layout.swap.add(Swap::activations);
  const MemoryEstimate swapped = one_f_one_b(s, p, options);
  EXPECT_TRUE(swapped.feasible) << ::testing::PrintToString(swapped.reasons);
  EXPECT_NEAR(swapped.stages[0].host_bytes / GiB, 55.5, 0.001);
  EXPECT_NEAR(item(swapped.stages[0], "parameters") / GiB, 9.23, 0.01);
  WeightTable weights(s, p);
  EXPECT_NEAR(weights.layer(1).elements.expert * 2 / GiB, 5.91, 0.005);
  // Whole matrices: one expert a rank and layer, so only the dense ones are uneven (9.23 GiB if they were even).
  EXPECT_GT(item(swapped.stages[0], "moments") / GiB, 9.23);
  EXPECT_LT(item(swapped.stages[0], "moments") / GiB, 9.6);
}

// Korthikanti et al. 2022 (arXiv 2205.05198), figures 1 and 7 as read off the plots: bytes of one of 8 tensor ranks of
// stage 0, fp16 with 18 bytes a parameter.
struct MegatronRow {
  const char* model;
  int pp, virtual_stages;
  std::int64_t micro_batch, global_batch;
  double states_GiB, kept_GiB, selective_GiB;       // figure 1
  double sequence, core, core_and_sequence, whole;  // figure 7: percent of plain tensor parallelism
};
const MegatronRow megatron_rows[] = {
    {"gpt_22b", 1, 1, 4, 4, 45.5625, 59.25, 9.5625, 66.84, 49.42, 16.18, 7.64},
    {"gpt3_175b", 8, 3, 1, 64, 45.5625, 66.84375, 12.3515625, 62.04, 56.53, 18.49, 8.71},
    {"gpt_1t", 64, 1, 1, 512, 32.958984375, 131.25, 26.5625, 58.31, 62.04, 20.27, 9.42},
};

Setting megatron(const MegatronRow& r) {
  Setting s;
  s.model = named(r.model);
  s.layout.tp = 8, s.layout.pp = r.pp, s.layout.dp = 1, s.layout.virtual_stages = r.virtual_stages;
  s.layout.sequence_parallel = false;
  s.num_devices = 8 * r.pp;
  s.batch = {.sequence_length = 2048, .micro_batch = r.micro_batch, .global_batch = r.global_batch};
  return s;
}

TEST(Published, KorthikantisFirstStage) {
  for (const MegatronRow& r : megatron_rows) {
    const auto schedule = plan::make_schedule(r.virtual_stages > 1 ? "interleaved_1f1b" : "1f1b",
                                              {.num_stages = r.pp,
                                               .num_micro_batches = static_cast<int>(r.global_batch / r.micro_batch),
                                               .num_chunks = r.virtual_stages});
    const auto layers = [&](const Setting& s) {
      const MemoryEstimate e = estimate_memory(s, schedule, model::find_kernels("korthikanti"));
      double bytes = 0;  // of the layers: without the ends, as the paper's figure
      for (const MemoryItem& i : e.stages[0].items)
        if (i.group == "activations" && i.name != "token ids" && i.name != "last hidden state" &&
            i.name != "normed hidden state" && i.name != "logits in float32")
          bytes += i.bytes;
      double states = 0;  // figure 1 spreads all parameters evenly
      for (const StageMemory& stage : e.stages) states += stage.state_bytes / r.pp;
      EXPECT_NEAR(states / GiB / r.states_GiB, 1, 0.02) << r.model;
      return bytes / GiB;
    };
    Setting s = megatron(r);
    EXPECT_NEAR(layers(s) / r.kept_GiB, 1, 0.002) << r.model;
    s.layout.sequence_parallel = true;
    s.layout.recompute.add(Recompute::core_attention);
    EXPECT_NEAR(layers(s) / r.selective_GiB, 1, 0.002) << r.model;
  }
}

TEST(Published, KorthikantisRelativeActivations) {
  for (const MegatronRow& r : megatron_rows) {
    const model::Kernels p = model::find_kernels("korthikanti");
    const auto layer = [&](bool sequence_parallel, plan::RecomputeSet recompute) {
      Setting s = megatron(r);
      s.layout.sequence_parallel = sequence_parallel;
      const model::Share share = rank_share(s, p, 1);
  return model::run_tape(model::layer_tape(subject_of(s, p, share, recompute), 0)).saved;
    };
    plan::RecomputeSet core, whole;
    core.add(Recompute::core_attention);
    whole.add(Recompute::layer);
    const double baseline = layer(false, {}) / 100;
    EXPECT_NEAR(layer(true, {}) / baseline, r.sequence, 0.15) << r.model;
    EXPECT_NEAR(layer(false, core) / baseline, r.core, 0.15) << r.model;
    EXPECT_NEAR(layer(true, core) / baseline, r.core_and_sequence, 0.15) << r.model;
    EXPECT_NEAR(layer(false, whole) / baseline, r.whole, 0.15) << r.model;
  }
}

// TP8 PP16 VPP2, experts over TP x EP = 32 ranks, micro-batches of 2 sequences of 4096, 64 GB an NPU, merged forward
// and backward: 2 (16 - 1) + 16 + 1 chunks of warm-up and the one that runs, 48 in all, of two layers each on stage 0.
// A middle stage's states are 11.4 GB (1.51 B expert and 0.13 B other parameters: bf16, fp32 gradients, state sharded
// 12 and 48 ways). The estimate of 94 GB for stage 0's activations counts 0.98 GB for each of 96 layers, all as MoE
// layers and with more copies of the routed rows than are kept here; the conclusion is the same.
TEST(Published, PangusLayoutNeedsRecomputationAndSwapping) {
  Setting s;
  s.model = named("pangu_ultra_moe");
  s.num_devices = 6144;
  s.layout.pp = 16, s.layout.virtual_stages = 2, s.layout.tp = 8, s.layout.ep = 32, s.layout.dp = 48;
  s.layout.schedule = "merged_1f1b";
  s.layout.stage_layers.assign(32, 2);  // 61 layers in 64 places; the MTP block is with the head
  s.layout.stage_layers[30] = 1, s.layout.stage_layers[31] = 0;
  s.layout.sharding = Sharding::optimizer;
  s.batch = {.sequence_length = 4096, .micro_batch = 2, .global_batch = 2 * 48 * 64};
  const auto schedule =
      plan::make_schedule("merged_1f1b", {.num_stages = 16, .num_micro_batches = 64, .num_chunks = 2});
  const model::Kernels p = model::find_kernels("eager");
  const MemoryOptions options{.capacity_bytes = 64e9};

  const MemoryEstimate all_kept = estimate_memory(s, schedule, p, options);
  EXPECT_EQ(all_kept.stages[0].chunks_in_flight, 48);
  EXPECT_EQ(all_kept.stages[0].layers_in_flight, 96);
  EXPECT_GT(all_kept.stages[0].needed_bytes, 64e9);
  EXPECT_FALSE(all_kept.feasible);
  EXPECT_THAT(all_kept.reasons[0], ::testing::StartsWith("stage 0 needs "));
  EXPECT_THAT(all_kept.reasons[0], ::testing::HasSubstr("48 chunks, 96 layers in flight"));
  EXPECT_NEAR(all_kept.stages[8].state_bytes / 11.4e9, 1, 0.04);

  for (Recompute part : {Recompute::mla_up_projection, Recompute::permute, Recompute::activation, Recompute::norm})
    s.layout.recompute.add(part);
  s.layout.swap.add(Swap::activations);
  const MemoryEstimate spared = estimate_memory(s, schedule, p, options);
  EXPECT_TRUE(spared.feasible) << ::testing::PrintToString(spared.reasons);
  EXPECT_GT(spared.stages[0].host_bytes, 10e9);
}

}  // namespace
}  // namespace trireme::sim
