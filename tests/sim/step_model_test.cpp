#include "sim/estimate/step_model.h"

#include <cmath>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "base/errors.h"
#include "model/model_catalog.h"
#include "platform/platform_file.h"
#include "sim/estimate/newton_schulz.h"
#include "sim/estimate/step_bound.h"
#include "sim/random_setting.h"

namespace trireme::sim {
namespace {

// 24 equal layers; the ends cost next to nothing with a vocabulary of 8.
Setting even_stages(int pp, int micro_batches) {
  Setting s;
  s.model.hidden = 4096, s.model.num_layers = s.model.num_dense_layers = 24, s.model.dense_ffn = 11008,
  s.model.vocab_size = 8;
  s.model.attention = {.num_heads = 32, .num_kv_heads = 32, .head_dim = 128};
  s.layout.pp = pp, s.layout.dp = 1;
  s.batch = {.sequence_length = 4096, .micro_batch = 1, .global_batch = micro_batches};
  s.num_devices = pp;
  return s;
}

TEST(StepModel, OneForwardOneBackwardTakesItsClosedForm) {
  Machine machine = machine_of("dgx_h100").machine();
  // Messages that cost nothing, so that only slots remain.
  for (MachineLevel& l : machine.levels) l.latency_s = 0, l.bytes_per_s = 1e30;
  const double layers = StepModel(even_stages(1, 1)).evaluate(SheetRates(machine)).pipeline_s;
  for (const auto& [pp, m] : {std::pair{2, 4}, {4, 8}, {8, 8}, {4, 32}}) {
    // (m + p - 1) slots of a forward and a backward of a p-th of the model (Narayanan et al. 2021, section 2.2).
    const double expected = (m + pp - 1) * layers / pp;
    EXPECT_NEAR(StepModel(even_stages(pp, m)).evaluate(SheetRates(machine)).pipeline_s / expected, 1, 0.01) << pp << " x " << m;
  }
}

TEST(StepModel, UnevenStagesWaitForTheSlowest) {
  const SheetRates machine = machine_of("dgx_h100");
  Setting even = even_stages(4, 64), uneven = even;
  uneven.layout.stage_layers = {3, 3, 9, 9};
  // The last stage waits for 3 + 3 + 9 layers once and then runs its 9 for each micro-batch: 64 x 9 + 15 against the
  // even 64 x 6 + 18. A mean of the stages would say 1.
  EXPECT_NEAR(StepModel(uneven).evaluate(machine).pipeline_s / StepModel(even).evaluate(machine).pipeline_s,
              591.0 / 402, 0.01);
}

TEST(StepModel, MoreOfAnythingTakesLonger) {
  const SheetRates machine = machine_of("dgx_h100");
  const auto step = [&](const Setting& s) { return StepModel(s).evaluate(machine).step_s; };
  Setting s = even_stages(2, 8);
  const double base = step(s);
  Setting recompute = s;
  recompute.layout.recompute.add(plan::Recompute::layer);
  // A forward more: 4/3 of the compute at most.
  EXPECT_GT(step(recompute), 1.2 * base);
  EXPECT_LT(step(recompute), 4.0 / 3 * 1.02 * base);
  Setting longer = s;
  longer.batch.sequence_length *= 2;
  EXPECT_GT(step(longer), 2 * base);
  Setting frozen = s;
  frozen.execution.frozen_weights = true;
  EXPECT_LT(step(frozen), 0.75 * base);
}

// Each row: the seconds that Korthikanti et al. 2022 (arXiv:2205.05198, table 5) measured on A100s, with the
// calibration that ships. Recomputing everything, and attention's core with sequence parallelism.
struct Published {
  const char* model;
  int devices, pp, chunks, micro_batch, batch;
  double full_s, selective_s;
};

TEST(StepModel, AgreesWithMegatronsTable) {
  const platform::StackProfile profile = platform::load_stack_profile(configs / "stacks" / "published.toml");
  const auto platform = platform::load_platform(configs / "platforms" / "dgx_a100.toml");
  const SheetRates machine(platform, profile.device(platform.device.name),
                                       profile.stack("megatron_lm_2022"), ComputeFormat::float16);
  const Published rows[] = {{"gpt_22b", 8, 1, 1, 4, 4, 1.42, 1.10},
                            {"gpt3_175b", 64, 8, 3, 1, 64, 18.13, 13.75},
                            {"gpt_1t", 512, 64, 1, 1, 512, 94.42, 71.49}};
  double sum = 0;
  for (const Published& r : rows)
    for (const bool selective : {false, true}) {
      Setting s;
      s.model = named(r.model);
      s.precision.compute = ComputeFormat::float16;
      s.layout.tp = 8, s.layout.pp = r.pp, s.layout.dp = 1, s.layout.virtual_stages = r.chunks;
      s.layout.schedule = r.chunks > 1 ? "interleaved_1f1b" : "1f1b";
      s.layout.sequence_parallel = selective;
      s.layout.recompute.add(selective ? plan::Recompute::core_attention : plan::Recompute::layer);
      s.layout.overlap.gradients = s.layout.overlap.parameters = s.layout.overlap.pipeline = false;
      s.layout.overlap.tensor = false;  // Megatron-LM of 2022 waits for its tensor-parallel messages
      s.execution.fused_attention = s.execution.fused_loss = false, s.execution.dropout = true;
      s.batch = {.sequence_length = 2048, .micro_batch = r.micro_batch, .global_batch = r.batch};
      s.num_devices = r.devices;
      const double error = std::abs(StepModel(s).evaluate(machine).step_s / (selective ? r.selective_s : r.full_s) - 1);
      EXPECT_LT(error, 0.08) << r.model << (selective ? " selective" : " full");
      sum += error;
    }
  EXPECT_LT(sum / 6, 0.03);
}

TEST(NewtonSchulz, CountsAsPublishedOfEuropa) {
  // A step multiplies 6144 x 6144 by itself three times: 5 x 2 x 3 x 6144^3 = 6.96 TFLOP.
  EXPECT_NEAR(newton_schulz_flops(6144, 6144) / 1e12, 6.96, 0.01);
  EXPECT_NEAR(newton_schulz_flops(2048, 6144) / 1e12, 0.60, 0.005);
  // Over 384 GPUs one expert a layer each: 222 matrices of 0.452 TFLOP, 100.4 TFLOP a GPU.
  EXPECT_NEAR(newton_schulz_flops(named("europa_951b")).experts / 384 / 1e12, 100.4, 0.5);
}

TEST(StepModel, EuropasOptimizerExplainsItsThroughput) {
  // 384 GH200, one sequence of 65,536 tokens each, orthogonalisation at Grace's rate and at the GPU's (41.7 and 2.2 s
  // as published): 441 -> 597 tokens/s. The published 441 and the difference of the two steps give the second.
  Setting s;
  s.model = named("europa_951b");
  s.num_devices = s.layout.dp = 384, s.layout.ep = 4;
  s.layout.sharding = plan::Sharding::parameters, s.layout.matrix_owners = true;
  s.layout.recompute.add(plan::Recompute::layer);
  s.batch = {.sequence_length = 65536, .micro_batch = 1, .global_batch = 384};
  s.precision.moment_bytes = 4;
  const SheetRates machine = machine_of("jupiter");
  const double flops = busiest_owner_flops(s);
  s.execution.newton_schulz_flops_per_s = flops / 41.7;
  const double slow = StepModel(s).evaluate(machine).step_s;
  s.execution.newton_schulz_flops_per_s = flops / 2.2;
  const double fast = StepModel(s).evaluate(machine).step_s;
  EXPECT_NEAR(65536 / (65536 / 441.0 - (slow - fast)), 597, 0.02 * 597);
}

TEST(StepBound, IsNeverAboveTheStep) {
  const std::vector<model::ModelSpec> models = some_models();
  std::mt19937 rng(7);
  BoundWorkspace workspace;
  GridWorkspace grid;
  int tight = 0, paired = 0;
  for (int i = 0; i < 2000; ++i) {
    const Setting s = random_setting(rng, models);
    const SheetRates machine = machine_of(some_platforms[i % some_platforms.size()], s.precision.compute);
    paired += joins(s.layout) && s.layout.ep > 1;
    const double exact = StepModel(s).evaluate(machine, grid).step_s, bound = step_lower_bound_s(s, machine, workspace);
    ASSERT_LE(bound, exact) << i << " " << s.layout.schedule << " pp " << s.layout.pp << " tp " << s.layout.tp;
    EXPECT_GT(bound, 0);
    tight += bound > 0.8 * exact;
  }
  // A bound of next to nothing would pass the test above: most are within a fifth.
  EXPECT_GT(tight, 1000);
  EXPECT_GT(paired, 50);
}

// One stage, two chunks' worth of it on one: merged slots of a forward and a backward, next to no messages but the
// experts'.
Setting paired_setting(bool overlap) {
  Setting s;
  s.model = named("qwen3_30b_a3b");
  s.layout.pp = 2, s.layout.dp = 16, s.layout.ep = 16, s.num_devices = 32;
  s.layout.schedule = "merged_1f1b";
  s.layout.overlap.experts = overlap;
  s.batch = {.sequence_length = 4096, .micro_batch = 1, .global_batch = 16 * 16};
  return s;
}

TEST(Pair, HidesEachHalfsMessagesBehindTheOthersCompute) {
  Machine m;
  m.overlap = 1;
  const PassTime forward{.matmul = 4, .exchanges = 3, .outside = 3};
  const PassTime backward{.matmul = 8, .exchanges = 3, .outside = 3, .apart = 2};
  // Messages of 6 beside a compute of 12: nothing is left. Alone 3 + 4, and a backward's weight gradients hide 2 of 3.
  EXPECT_DOUBLE_EQ(pair_s(forward, backward, SheetRates(m)), 12);
  EXPECT_DOUBLE_EQ(alone_s(forward, SheetRates(m)), 7);
  EXPECT_DOUBLE_EQ(alone_s(backward, SheetRates(m)), 9);
  // A backward's messages find only the forward's compute and its own weight gradients: 4 + 2 of 9 are hidden.
  const PassTime slow{.matmul = 8, .exchanges = 9, .outside = 9, .apart = 2};
  EXPECT_DOUBLE_EQ(pair_s(forward, slow, SheetRates(m)), 12 + 12 - (3 + 6));
  // Contention: 0.75 of what is hidden costs nothing.
  m.overlap = 0.75;
  EXPECT_DOUBLE_EQ(pair_s(forward, backward, SheetRates(m)), 12 + 0.25 * 6);
}

TEST(Pair, LinksInsideAndOutsideWorkAtTheSameTime) {
  Machine m;
  // Nothing is hidden: two gathers of 2 outside and 1 inside take 3 each alone, 4 together.
  const PassTime half{.matmul = 5, .exchanges = 3, .outside = 2, .inside = 1};
  EXPECT_DOUBLE_EQ(pair_s(half, half, SheetRates(m)), 10 + 4);
  EXPECT_DOUBLE_EQ(alone_s(half, SheetRates(m)), 5 + 3);
}

TEST(StepModel, JoinedSlotsHideMessages) {
  const SheetRates machine = machine_of("dgx_h100");
  Setting exposed = paired_setting(false), hidden = paired_setting(true);
  const double before = StepModel(exposed).evaluate(machine).pipeline_s,
               after = StepModel(hidden).evaluate(machine).pipeline_s;
  EXPECT_LT(after, 0.95 * before);
  // Another schedule has no partners: there a micro-batch hides its own messages.
  hidden.layout.schedule = exposed.layout.schedule = "1f1b";
  EXPECT_LT(StepModel(hidden).evaluate(machine).pipeline_s, StepModel(exposed).evaluate(machine).pipeline_s);
  // One micro-batch has no partner either.
  Setting alone = paired_setting(true);
  alone.batch.global_batch = 16;
  Setting plain = paired_setting(false);
  plain.batch.global_batch = 16;
  const double saved = StepModel(plain).evaluate(machine).pipeline_s - StepModel(alone).evaluate(machine).pipeline_s;
  EXPECT_LT(saved, 0.5 * (before - after));
}

TEST(StepModel, SwappedActivationsTakeTheHostsLink) {
  Setting s = even_stages(2, 8);
  s.layout.swap.add(plan::Swap::activations);
  Machine machine = machine_of("dgx_h100").machine();
  Setting kept = s;
  kept.layout.swap = {};
  const double without = StepModel(kept).evaluate(SheetRates(machine)).step_s;
  // 12 layers of a stage keep about 34 x 4,096 x 4,096 bytes each: 6.8 GB a micro-batch.
  machine.host_bytes = 1e12;
  EXPECT_DOUBLE_EQ(StepModel(s).evaluate(SheetRates(machine)).step_s, without);  // hidden
  EXPECT_EQ(StepModel(s).evaluate(SheetRates(machine)).swap_s, 0);
  machine.host_bytes = 10e9;
  // Every slot is a copy out or a copy in: (8 + 1) micro-batches, both ways.
  const StepTime slow = StepModel(s).evaluate(SheetRates(machine));
  EXPECT_NEAR(slow.pipeline_s / (9 * 2 * 0.68), 1, 0.1);
  EXPECT_GT(slow.swap_s, 0.5 * slow.pipeline_s);
}

TEST(StepModel, SwappedStatesComeInSlices) {
  Setting s = even_stages(1, 1);
  Machine machine = machine_of("dgx_h100").machine();
  machine.host_bytes = 10e9;
  s.layout.swap.add(plan::Swap::optimizer);
  // 24 x (4 x 4096^2 + 3 x 4096 x 11008) = 4.86 B parameters of 12 bytes at 10 GB/s each way; a sixteenth is alone.
  EXPECT_NEAR(StepModel(s).evaluate(SheetRates(machine)).optimizer_s, 4.857e9 * 12 / 10e9 * 17 / 16, 0.05);
}

TEST(StepModel, HybridShardsAreSummedOverTheirSets) {
  Setting s = even_stages(1, 32);
  s.layout.dp = 32, s.num_devices = 32;
  s.layout.sharding = plan::Sharding::parameters, s.layout.shard_degree = 8;
  s.layout.overlap.gradients = false;
  const SheetRates machine = machine_of("dgx_h100");
  // 4 sets of 8: each rank sums an eighth of 4.86 B float32 gradients over 4 nodes, 2 x 3/4 of them over its card.
  const double card = 50e9 * 0.75;
  EXPECT_NEAR(StepModel(s).evaluate(machine).reduce_s, 2 * 0.75 * 4.857e9 * 4 / 8 / card, 0.003);
  s.layout.shard_degree = 0;
  EXPECT_EQ(StepModel(s).evaluate(machine).reduce_s, 0);  // all of it travels in the backwards
}

TEST(StepModel, GroupsOfMicroBatchesAreAsTheLayoutSays) {
  Setting s = even_stages(4, 8);
  s.layout.schedule = "interleaved_1f1b", s.layout.virtual_stages = 2;
  EXPECT_EQ(schedule_of(s).rows[3][4].mb, 0);  // after four micro-batches of the first chunk the second one's
  s.layout.micro_batch_group = 8;
  EXPECT_EQ(schedule_of(s).rows[3][4].mb, 4);
  s.layout.micro_batch_group = 3;
  EXPECT_THROW(StepModel{s}, ConfigError);
}

OperatorList layer_works(const Setting& s) {
  OperatorList works;
  add_layer_operators(s, s.model.num_dense_layers, works);
  return works;
}

TEST(LayerWork, ExpertsAreOneOperationOfTheHostAndAKernelEach) {
  Setting s = even_stages(1, 1);
  s.model.num_layers = 25, s.model.moe.num_experts = 16, s.model.moe.expert_ffn = 1024, s.model.moe.router.top_k = 2;
  s.layout.ep = 2, s.layout.dp = s.num_devices = 2, s.batch.global_batch = 2;
  const auto up = [&](bool by_expert) {
    s.execution.launches_by_expert = by_expert;
    for (const Operator& w : layer_works(s))
      if (w.groups > 1) return w;
    return Operator{};
  };
  // 8 of the experts are here. A loop inside the operation costs a fifth of an operation for each kernel.
  EXPECT_EQ(up(true).groups, 8);
  EXPECT_EQ(up(true).kernels, 8);
  EXPECT_DOUBLE_EQ(up(true).launches, 2.6);
  EXPECT_EQ(up(false).kernels, 1);
  EXPECT_EQ(up(false).launches, 1);
}

TEST(LayerTime, EverySecondMatmulIsComputedAgain) {
  const SheetRates machine = machine_of("dgx_h100");
  Setting s = even_stages(1, 1);
  s.model.num_dense_layers = 25;
  const OperatorList works = layer_works(s);
  const auto forward_of = [&](const Setting& of) { return layer_time(works, of, machine, {}, false); };
  EXPECT_EQ(forward_of(s).recompute.matmul, 0);
  s.execution.alternate_matmuls = true;
  // Llama's seven matmuls have 2 h^2 and 2 h k of projections (h = 4096, k = 4096 of keys) and 3 h f (f = 11008):
  // the second, fourth and sixth are keys, output and up, h k + h^2 + h f = 0.388 of all. Widths with fewer key heads:
  // 0.36. One share stands for all.
  EXPECT_NEAR(forward_of(s).recompute.matmul / forward_of(s).pass[0].matmul, 0.37, 0.02);
  EXPECT_EQ(forward_of(s).recompute.attention, 0);
}

TEST(StepModel, ExplainedTermsSumToTheStep) {
  Setting s = even_stages(4, 16);
  s.layout.dp = 2, s.num_devices = 8, s.batch.global_batch = 32;
  const SheetRates machine = machine_of("dgx_h100");
  double sum = 0;
  for (const EstimateTerm& t : StepModel(s).explain(machine)) {
    EXPECT_FALSE(t.source.empty()) << t.what;
    sum += t.seconds;
  }
  EXPECT_NEAR(sum / StepModel(s).evaluate(machine).step_s, 1, 0.05);
}

}  // namespace
}  // namespace trireme::sim
