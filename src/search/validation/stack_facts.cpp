#include "search/validation/stack_facts.h"

#include <array>

#include "base/letter_case.h"

namespace trireme::search {

namespace {

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// "… NeMo 26.04.01 …" or "… 26.04 NeMo Container …" -> "26.04.01"
std::string release(const std::string& text) {
  for (const char* year : {"24.", "25.", "26."})
    for (auto at = text.find(year); at != std::string::npos; at = text.find(year, at + 1)) {
      if (at > 0 && (std::isdigit(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '.')) continue;
      auto end = at + 3;
      while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.')) ++end;
      std::string found = text.substr(at, end - at);
      while (!found.empty() && found.back() == '.') found.pop_back();
      if (found.size() >= 5) return found;
    }
  return "";
}

plan::RecomputeSet parts(std::initializer_list<plan::Recompute> of) {
  plan::RecomputeSet set;
  for (auto p : of) set.add(p);
  return set;
}

// Of a source that no rule knows: the family of the software that the row names, or of the sharding that it uses.
std::string stack_by_words(const Row& r) {
  struct Rule {
    const char* word;
    const char* stack;
  };
  // The first that matches: names that contain others come before them.
  static constexpr std::array rules{Rule{"megatron-bridge", "megatron_bridge"},
                                    Rule{"mindspeed", "mindspeed_llm"},
                                    Rule{"primus", "primus"},
                                    Rule{"maxtext", "maxtext"},
                                    Rule{"torchtitan", "torchtitan_compile"},
                                    Rule{"megatron-deepspeed", "megatron_deepspeed"},
                                    Rule{"megatron", "megatron_core_2025"},
                                    Rule{"nemo", "nemo"},
                                    Rule{"fsdp2", "torchtitan_compile"},
                                    Rule{"torch.compile", "torchtitan_compile"}};
  const std::string text = lower_case(r.source + " " + r.notes + " " + r.overlap + " " + r.sharding);
  for (const Rule& rule : rules)
    if (has(text, rule.word)) return rule.stack;
  return "";
}

std::string stack_name(const Row& r) {
  const std::string& s = r.source;
  const bool eager = has(r.overlap, "eager") && !has(r.overlap, "compile");
  if (has(s, "Megatron-Bridge") || has(s, "Megatron-Core MoE") || r.id.starts_with("mb")) {
    const std::string version = release(has(s, "Container") ? s : r.notes);
    return "megatron_bridge_" + (version.empty() ? "26.08" : version);
  }
  if (has(s, "vTrain")) return "megatron_deepspeed_2022";
  if (has(s, "2205.05198")) return "megatron_lm_2022";
  if (has(s, "SimuMax")) return "megatron_lm_2026";
  if (has(s, "Megatron-MoE-ModelZoo") || has(s, "2603.07685") || has(s, "Megatron-LM")) return "megatron_core_2025";
  if (has(s, "xtuner") || has(s, "Pai-Megatron")) return "pai_megatron_2025";
  if (has(s, "NVIDIA/NeMo@")) return "nemo_24.07";
  if (has(s, "maxtext")) return "maxtext_2025";
  if (has(s, "dgxc-benchmarking")) return has(s, "25.05") ? "nemo_25.05" : "nemo_25.04";
  if (has(s, "Automodel")) return "nemo_automodel_2026";
  if (has(s, "torchtitan")) return eager ? "torchtitan_eager" : "torchtitan_compile";
  if (has(s, "Qwen3-30B-A3B MOE")) return "torchtitan_moe_2025";
  if (has(s, "Primus")) return has(r.source, "blog") || has(r.id, "pr2") ? "primus_2026" : "primus_2025";
  if (has(s, "MindSpeed")) return "mindspeed_llm";
  if (has(s, "KempnerForge")) return "kempnerforge";
  if (has(s, "whitecircle")) return has(r.sharding, "TRL") ? "trl_2026" : "halo_2026";
  if (has(s, "fms-fsdp")) return has(r.overlap, "no torch.compile") ? "fms_fsdp_eager" : "fms_fsdp_compile";
  return stack_by_words(r);
}

}  // namespace

StackFacts facts_of(const Row& row) {
  using plan::Recompute;
  StackFacts f;
  f.name = stack_name(row);
  f.selective = parts({Recompute::core_attention});
  const auto family = [&](const char* prefix) { return f.name.starts_with(prefix); };
  if (family("megatron_bridge")) {
    f.overlap_tensor = true, f.reduce_bytes = 2;
    // Its dispatcher is a plain all-to-all unless a recipe names another; DeepSeek-V3's on H100 always did.
    f.dedup_exchange = has(row.model, "DeepSeek") && has(row.hardware, "H100");
    f.whole_graphs_fuse_experts = f.current_scaling = true;
  } else if (family("megatron_deepspeed_2022") || family("megatron_lm_2022")) {
    f.sharding = plan::Sharding::none,
    f.sequence_parallel = has(row.recompute, "SP") || has(row.recompute, "sequence parallel");
    f.fused_attention = f.fused_loss = f.overlap_gradients = false, f.dropout = true;
    f.overlap_pipeline = false;
    f.reduce_bytes = family("megatron_lm") ? 4 : 2;
    f.flops = model::full_square_flops;
  } else if (family("megatron_lm_2026")) {
    f.overlap_gradients = false, f.overlap_pipeline = false;
  } else if (family("nemo_24") || family("nemo_25")) {
    f.overlap_tensor = true, f.reduce_bytes = 2;
    if (family("nemo_25.04")) f.flops = model::full_square_flops;
  } else if (family("maxtext")) {
    f.sharding = plan::Sharding::parameters, f.flops = model::full_square_flops;
    f.recompute = parts({Recompute::layer});
  } else if (family("torchtitan") || family("kempnerforge") || family("fms") || family("nemo_automodel")) {
    f.sharding = plan::Sharding::parameters, f.flops = model::full_square_flops;
    // Matmul outputs survive, what lies between them does not.
    f.selective = parts({Recompute::norm, Recompute::activation});
    f.launches_by_expert = false;
    f.experts_cut_with_tp = family("kempnerforge");
    f.alternate_matmuls = f.current_scaling = family("torchtitan");
    if (family("fms")) f.selective = parts({Recompute::layer});
    // All its benchmarks' recipes turn activation checkpointing on.
    if (family("nemo_automodel")) f.recompute = parts({Recompute::layer});
  } else if (family("primus")) {
    f.current_scaling = has(row.precision, "CS");
  } else if (family("mindspeed")) {
    f.overlap_tensor = true, f.flops = model::full_square_flops, f.experts_cut_with_tp = true;
    f.overlap_gradients = has(row.overlap, "overlap-grad-reduce");
  } else if (family("halo") || family("trl")) {
    // Fine-tuning of a trained router.
    f.sharding = plan::Sharding::parameters, f.launches_by_expert = f.balanced = false;
  }
  return f;
}

model::Kernels kernels_of(const std::string& stack) {
  const auto family = [&](const char* prefix) { return stack.starts_with(prefix); };
  if (family("megatron_lm_2022") || family("megatron_deepspeed")) return model::find_kernels("korthikanti");
  if (family("megatron") || family("nemo_2") || family("pai_megatron") || family("primus"))
    return model::find_kernels("megatron");
  if (family("torchtitan") || family("nemo_automodel") || family("fms")) return model::find_kernels("torchtitan");
  if (family("mindspeed")) return model::find_kernels("mindspeed");
  return {};
}

std::string platform_of(const Row& row) {
  const std::string h = upper_case(row.hardware);
  struct Rule {
    const char* part;
    const char* platform;
  };
  // The first that matches: longer names come before those that they contain.
  static constexpr std::array rules{
      Rule{"4X200G", "a100_4x200g"}, Rule{"HBM2E", "h100_96gb_hbm2e"}, Rule{"GB300", "gb300_nvl72"},
      Rule{"GB200", "gb200_nvl72"},  Rule{"B300", "dgx_b300"},         Rule{"B200", "dgx_b200"},
      Rule{"GH200", "jupiter"},      Rule{"H200", "dgx_h200"},         Rule{"H800", "dgx_h800"},
      Rule{"H100", "dgx_h100"},      Rule{"A100", "dgx_a100"},         Rule{"MI250", "frontier"},
      Rule{"MI300", "mi300x"},       Rule{"MI325", "mi325x"},          Rule{"MI355", "mi355x"},
      Rule{"910B", "atlas_800t_a2"}, Rule{"FRONTIER", "frontier"}};
  // What only the source says of the node.
  if (has(row.source, "vTrain") && has(h, "A100")) return "a100_4x200g";
  if (has(row.source, "KempnerForge") && has(h, "H200")) return "h200_4gpu";
  if (has(row.source, "fms-fsdp")) return has(h, "H100") ? "h100_800g" : "a100_400g";
  // Cards with other memory, clocks and links than the modules of the same name.
  if (has(h, "PCIE")) return has(h, "A100") ? "a100_pcie" : "";
  for (const Rule& rule : rules)
    if (has(h, rule.part)) return rule.platform;
  return "";
}

}  // namespace trireme::search
