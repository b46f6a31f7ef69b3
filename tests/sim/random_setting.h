// Settings for tests: catalogue models and machines, and layouts of every kind drawn at random.
#pragma once
#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "model/model_catalog.h"
#include "platform/platform_file.h"
#include "sim/estimate/machine.h"
#include "sim/rates/sheet_rates.h"

namespace trireme::sim {

inline const std::filesystem::path configs = std::filesystem::path(TRIREME_SOURCE_DIR) / "configs";

inline model::ModelSpec named(const char* name) {
  return model::find_model(name, configs / "models");
}

inline SheetRates machine_of(const char* platform, ComputeFormat format = ComputeFormat::bfloat16) {
  return SheetRates(platform::load_platform(configs / "platforms" / (std::string(platform) + ".toml")), {}, {},
                    format);
}

inline std::vector<model::ModelSpec> some_models() {
  return {named("deepseek_v3"), named("qwen3_30b_a3b"), named("llama3_1_70b"), named("gpt_oss_120b"),
          named("nemotron_4_15b")};
}

inline constexpr std::array<const char*, 5> some_platforms = {"frontier", "dgx_h100", "gb200_nvl72", "jupiter",
                                                              "atlas_800t_a2"};

inline Setting random_setting(std::mt19937& rng, const std::vector<model::ModelSpec>& models) {
  const auto pick = [&](auto... of) {
    const int values[] = {of...};
    return values[rng() % (sizeof...(of))];
  };
  Setting s;
  s.model = models[rng() % models.size()];
  plan::LayoutSpec& l = s.layout;
  const char* schedules[] = {"gpipe",         "1f1b",       "interleaved_1f1b", "zero_bubble_h1",
                             "zero_bubble_v", "dualpipe_v", "merged_1f1b"};
  l.tp = pick(1, 2, 4, 8), l.pp = pick(1, 2, 4, 8), l.cp = pick(1, 1, 2), l.dp = pick(1, 2, 8, 16);
  l.schedule = l.pp == 1 ? "1f1b" : schedules[rng() % 7];
  l.virtual_stages = l.schedule == "interleaved_1f1b" || l.schedule == "merged_1f1b" ? pick(2, 3)
                     : l.schedule == "zero_bubble_v" || l.schedule == "dualpipe_v"   ? 2
                                                                                     : 1;
  if (s.model.moe.num_experts > 0) l.ep = std::min(pick(1, 2, 4, 8), l.tp * l.cp * l.dp);
  l.sequence_parallel = rng() % 2, l.sharding = static_cast<plan::Sharding>(rng() % 4);
  const char* patterns[] = {"flat", "dedup", "halo", "allgather_a2a", "allgather"};
  l.all_to_all = patterns[rng() % 5];
  l.swap.bits = rng() % 2 ? rng() % 4 : 0;
  if (l.dp % 4 == 0) l.shard_degree = pick(0, 2, 4);
  l.overlap = {.gradients = rng() % 2 == 0,
               .parameters = rng() % 2 == 0,
               .tensor = rng() % 2 == 0,
               .experts = rng() % 2 == 0,
               .pipeline = rng() % 2 == 0};
  l.recompute.bits = rng() % 2 ? rng() % 512 : 0, l.recompute_layers = pick(0, 1, 2);
  s.execution.graphs = static_cast<Graphs>(rng() % 3);
  s.batch = {.sequence_length = pick(512, 4096), .micro_batch = pick(1, 2), .global_batch = 0};
  s.batch.global_batch = s.batch.micro_batch * l.dp * l.pp * pick(1, 2, 5);
  s.precision.compute = rng() % 2 ? ComputeFormat::bfloat16 : ComputeFormat::float8;
  if ((l.schedule == "interleaved_1f1b" || l.schedule == "merged_1f1b") && rng() % 2)
    l.micro_batch_group = static_cast<int>(s.batch.num_micro_batches(l.dp));
  s.num_devices = l.pp * l.tp * l.cp * l.dp;
  return s;
}

}  // namespace trireme::sim
