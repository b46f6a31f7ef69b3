#include "search/validation/resolve_row.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "base/letter_case.h"

namespace trireme::search {

namespace {

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Which format, "" for one that nobody knows.
std::string compute_format(const std::string& precision) {
  const std::string p = upper_case(precision);
  if (has(p, "NVFP4")) return "nvfp4";
  if (has(p, "MXFP8") || has(p, "FP8-MX") || has(p, "1X32") || has(p, "VARIANT 2")) return "mxfp8";
  if (has(p, "FP8")) return "float8";
  if (has(p, "BF16")) return "bfloat16";
  if (has(p, "FP16")) return "float16";
  if (has(p, "FP32")) return "float32";
  return "";
}

sim::ComputeFormat format_of(const std::string& name) {
  if (name == "nvfp4") return sim::ComputeFormat::nvfp4;
  if (name == "mxfp8") return sim::ComputeFormat::mxfp8;
  if (name == "float8") return sim::ComputeFormat::float8;
  if (name == "float16") return sim::ComputeFormat::float16;
  return name == "float32" ? sim::ComputeFormat::float32 : sim::ComputeFormat::bfloat16;
}

int first_number(const std::string& text, std::size_t from = 0) {
  const auto at = text.find_first_of("0123456789", from);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at);
}

// Parts by the names that recipes use: "mlp+mla_up_proj".
void add_parts(const std::string& text, plan::RecomputeSet& set) {
  using plan::Recompute;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, '+');) {
    if (has(word, "mla_up"))
      set.add(Recompute::mla_up_projection);
    else if (has(word, "layernorm") || word == "norm")
      set.add(Recompute::norm);
    else if (has(word, "moe_act"))
      set.add(Recompute::activation);
    else if (has(word, "core_attn"))
      set.add(Recompute::core_attention);
    else if (word == "moe")
      set.add(Recompute::moe);
    else if (word == "mlp")
      set.add(Recompute::mlp);
  }
}

// "full", "full:5 layers", "selective:mlp+mla_up_proj", "none …", "" (the stack's default).
void set_recompute(const Row& row, ResolvedRow& out) {
  using plan::Recompute;
  const std::string text = lower_case(row.recompute);
  plan::LayoutSpec& l = out.setting.layout;
  if (text.empty() || has(text, "per recipe") || has(text, "recipe") || has(text, "none stated")) {
    l.recompute = out.facts.recompute;
    if (has(text, "activation_checkpointing")) l.recompute.add(Recompute::layer);
    out.assumptions.push_back("recompute");
  } else if (text.starts_with("none") || text == "no" || text == "off") {
    return;
  } else if (text.starts_with("full")) {
    l.recompute.add(Recompute::layer);
    if (has(text, "1 layer per virtual stage"))
      l.recompute_layers = 1;
    else if (has(text, "block") && !has(text, "all layers"))
      l.recompute_layers = std::max(1, first_number(text));
    else if (const int layers = has(text, "layers") && !has(text, "(all") ? first_number(text) : 0)
      l.recompute_layers = std::max(1, static_cast<int>(std::lround(double(layers) / (l.pp * l.virtual_stages))));
    if (has(text, "activation function")) l.recompute.add(Recompute::activation);
  } else if (const auto colon = text.find(':'); text.starts_with("selective") && colon != std::string::npos) {
    add_parts(text.substr(colon + 1), l.recompute);
  } else if (text.starts_with("selective")) {
    if (has(text, "core-attn") || has(text, "attention"))
      l.recompute.add(Recompute::core_attention);
    else if (!has(text, "not recomputed")) {
      l.recompute = out.facts.selective;
      // By operation, not by layer: matmuls of experts are not on torchtitan's list of what survives, nor are messages.
      if (out.facts.alternate_matmuls && !has(text, "layer")) {
        out.setting.execution.alternate_matmuls = true;
        if (out.setting.model.moe.num_experts > 0) l.recompute.add(Recompute::moe);
      }
    }
  } else {
    std::string words = text;
    std::replace_if(
        words.begin(), words.end(), [](char c) { return c == ',' || c == ';' || c == ' '; }, '+');
    add_parts(words, l.recompute);
    if (l.recompute.empty()) {
      l.recompute = out.facts.recompute;
      out.assumptions.push_back("recompute");
    }
  }
}

void set_sharding(const Row& row, ResolvedRow& out) {
  plan::LayoutSpec& l = out.setting.layout;
  const std::string& text = row.sharding;
  l.sharding = out.facts.sharding;
  if (text.empty()) {
    if (row.source.find("vTrain") == std::string::npos) out.assumptions.push_back("sharding");
  } else if (has(text, "ZeRO-2")) {
    l.sharding = plan::Sharding::gradients;
  } else if (has(text, "FSDP") || has(text, "HSDP") || has(text, "ZeRO-3")) {
    l.sharding = plan::Sharding::parameters;
    if (has(text, "HSDP")) l.shard_degree = 8;
    if (const auto group = text.find("shard group"); group != std::string::npos)
      l.shard_degree = first_number(text, group);
    if (const auto maxtext = text.find("MaxText FSDP"); maxtext != std::string::npos)
      l.shard_degree = first_number(text);
    l.shard_degree = std::min(l.shard_degree, l.dp * l.cp);
  } else if (has(text, "distributed optimizer") || has(text, "ZeRO-1")) {
    l.sharding = plan::Sharding::optimizer;
  } else if (has(text, "DDP") || text == "none") {
    l.sharding = plan::Sharding::none;
  }
}

void set_overlap_and_execution(const Row& row, ResolvedRow& out) {
  const std::string& o = row.overlap;
  plan::LayoutSpec& l = out.setting.layout;
  sim::Execution& e = out.setting.execution;
  const StackFacts& f = out.facts;
  l.overlap.gradients = f.overlap_gradients && !has(o, "no grad/param overlap");
  l.overlap.parameters = f.overlap_gradients && !has(o, "no grad/param overlap");
  // Megatron's tensor-parallel overlap wants fixed shapes, and formats of at least 8 bits: recipes of mixtures of
  // experts and of NVFP4 leave it off.
  const bool tensor = f.overlap_tensor && out.setting.model.moe.num_experts == 0 &&
                      out.setting.precision.compute != sim::ComputeFormat::nvfp4;
  l.overlap.tensor = (tensor || has(o, "sync TP") || has(o, "syncTP") || has(o, "TP overlap")) && !has(o, "no TP") &&
                     !has(o, "vanilla TP");
  l.overlap.pipeline = f.overlap_pipeline;
  l.overlap.experts =
      ((has(o, "EP a2a overlap") || has(o, "EP overlap")) && !has(o, "no EP overlap")) || has(o, "A2A_OVERLAP=1");
  const bool dedup = has(o, "ybrid") || has(o, "eepEP") || has(o, "eepep");
  const bool flat = has(o, "alltoall") || has(o, "AlltoAll") || has(o, "A2A (NCCL)") || has(o, "NCCL");
  l.all_to_all = has(o, "dispatcher allgather") || has(o, "(allgather)") ? "allgather"
                 : dedup || (f.dedup_exchange && !flat)                  ? "dedup"
                                                                         : "flat";
  if (out.setting.layout.ep > 1 && !dedup && !flat) out.assumptions.push_back("dispatch");
  if (has(o, "full_iteration") || has(o, "full-iteration"))
    e.graphs = sim::Graphs::whole;
  else if (has(o, "CUDA graph"))
    e.graphs = sim::Graphs::parts;
  e.dropout = f.dropout, e.current_scaling = f.current_scaling;
  e.fused_attention = f.fused_attention, e.fused_loss = f.fused_loss, e.launches_by_expert = f.launches_by_expert;
  if (e.graphs == sim::Graphs::whole && out.setting.model.moe.num_experts > 0) {
    // A captured iteration cannot loop over counts that only the device knows.
    e.launches_by_expert = false;
    if (f.whole_graphs_fuse_experts && out.setting.precision.compute == sim::ComputeFormat::mxfp8)
      e.fused_experts = l.overlap.experts = true;
  }
  // Cumulative optimisations name only what each step adds; graphs came with the fifth.
  if (const auto step = row.notes.find("cumulative step ");
      step != std::string::npos && std::atoi(row.notes.c_str() + step + 16) >= 5)
    e.graphs = sim::Graphs::parts;
  if (out.setting.model.attention.sinks && has(row.notes, "cuDNN regression")) e.fused_attention = false;
  // Only scores that reach memory are worth dropping alone.
  if (out.setting.layout.recompute.has(plan::Recompute::core_attention) && has(row.recompute, "core_attn"))
    e.fused_attention = false;
  e.reads_counts = out.setting.model.moe.num_experts > 0 && e.graphs != sim::Graphs::whole && !has(o, "sync-free") &&
                   !has(row.model, "capacity") && !has(row.notes, "token-drop");
  // Written for eight ranks joined by NVLink: over more of them DeepEP's dispatch reaches 400 and its combine 190 GB/s
  // of 900 (Megatron-LM's guide to DeepSeek-V3 on GB200), links as such about 780.
  if (dedup && has(o, "eepEP") && out.platform.find("nvl72") != std::string::npos && l.ep > 8) e.exchange_links = 0.33;
  if (has(row.notes, "LoRA")) e.frozen_weights = true;
  if (has(row.notes, "natural routing") || has(row.notes, "(unbalanced) routing") ||
      (!f.balanced && out.setting.model.moe.num_experts > 0 && l.ep > 1)) {
    // Nobody says how uneven; a coefficient of variation of a half is what first thousands of steps show.
    out.setting.load.cv = 0.5;
    out.assumptions.push_back("expert load");
  }
}

}  // namespace

std::optional<model::ModelSpec> gpt_by_sizes(const std::string& name) {
  int hidden = 0, layers = 0, heads = 0;
  if (std::sscanf(name.c_str(), "GPT h=%d L=%d a=%d", &hidden, &layers, &heads) != 3 || hidden < 1 || layers < 1 ||
      heads < 1 || hidden % heads != 0)
    return std::nullopt;
  model::ModelSpec m;
  m.name = name, m.vocab_size = 51200, m.hidden = hidden, m.num_layers = m.num_dense_layers = layers,
  m.dense_ffn = 4 * hidden;
  m.tied_embeddings = true, m.gated = false, m.activation = model::Activation::gelu, m.norm = model::NormKind::layer;
  m.mlp_bias = true, m.learned_positions = 2048;
  m.attention.num_heads = m.attention.num_kv_heads = heads, m.attention.head_dim = hidden / heads;
  m.attention.bias = m.attention.output_bias = true;
  return m;
}

ResolvedRow resolve(const Row& row, const FindModel& find_model) {
  ResolvedRow out;
  out.facts = facts_of(row);
  out.assumptions = row.borrowed;
  const auto skip = [&](std::string why) {
    out.skipped = std::move(why);
    return out;
  };
  if (row.scorable != "yes") return skip(row.scorable.starts_with("no: ") ? row.scorable.substr(4) : row.scorable);
  if (!row.devices || !row.micro_batch || !row.global_batch || !row.sequence)
    return skip("devices, batch or sequence are missing");
  out.platform = platform_of(row);
  if (out.platform.empty()) return skip("hardware \"" + row.hardware + "\" is not described");
  std::string reason;
  auto model = find_model(row.model, reason);
  if (!model) model = gpt_by_sizes(row.model);
  if (!model) return skip(reason.empty() ? "architecture not listed" : reason);

  sim::Setting& s = out.setting;
  s.model = *model, s.num_devices = *row.devices;
  s.batch = {.sequence_length = *row.sequence, .micro_batch = *row.micro_batch, .global_batch = *row.global_batch};
  plan::LayoutSpec& l = s.layout;
  l.tp = row.tp.value_or(1), l.pp = row.pp.value_or(1), l.cp = row.cp.value_or(1), l.ep = row.ep.value_or(1),
  l.etp = row.etp.value_or(out.facts.experts_cut_with_tp ? l.tp : 1);
  if (!row.tp || !row.pp) {
    // Where one of them is blank, the other degrees may leave one value for it.
    const long long rest = 1LL * l.tp * l.pp * l.cp * row.dp.value_or(0);
    if (row.tp.has_value() != row.pp.has_value() && rest > 0 && s.num_devices % rest == 0)
      (row.tp ? l.pp : l.tp) = static_cast<int>(s.num_devices / rest);
    else
      out.assumptions.push_back("tensor or pipeline degree");
  }
  l.virtual_stages = l.pp > 1 ? row.vpp.value_or(1) : 1;
  const int ranks = l.tp * l.pp * l.cp;
  if (s.num_devices % ranks != 0)
    return skip(fmt::format("{} devices are no multiple of tp x pp x cp = {}", s.num_devices, ranks));
  l.dp = s.num_devices / ranks;
  if (row.dp && *row.dp < l.dp && l.dp % *row.dp == 0) {
    // Ranks beyond tp x pp x cp x dp hold copies of the data.
    out.counted_share = double(*row.dp) / l.dp;
    s.batch.global_batch = s.batch.global_batch * l.dp / *row.dp;
  } else if (row.dp && *row.dp != l.dp) {
    out.assumptions.push_back("data degree");  // the devices say otherwise
  }
  if (s.model.moe.num_experts == 0)
    l.ep = l.etp = 1;
  else if (!row.ep) {
    // As many as the stage's ranks and the experts allow: what such sources do where they say.
    for (int ep = 1; ep <= std::min(s.model.moe.num_experts, l.dp * l.cp * l.tp / l.etp); ++ep)
      if (s.model.moe.num_experts % ep == 0 && l.dp * l.cp * l.tp % (ep * l.etp) == 0) l.ep = ep;
    out.assumptions.push_back("expert degree");
  }
  const int stage_ranks = l.dp * l.cp * l.tp;
  if (l.ep > 1 && stage_ranks % (l.ep * l.etp) != 0) {
    // Sources contradict themselves now and then: the largest degree that the stage has ranks for.
    while (l.ep > 1 && stage_ranks % (l.ep * l.etp) != 0) --l.ep;
    if (stage_ranks % (l.ep * l.etp) != 0) l.etp = 1;
    out.assumptions.push_back("expert degree");
  }
  if (l.ep > 1 && s.model.moe.num_experts % l.ep != 0) out.assumptions.push_back("experts in unequal parts");
  if (const std::int64_t at_a_time = s.batch.micro_batch * l.dp; s.batch.global_batch % at_a_time != 0) {
    const std::int64_t given = s.batch.global_batch;
    s.batch.global_batch = std::max<std::int64_t>(1, given / at_a_time) * at_a_time;
    out.counted_share *= double(given) / double(s.batch.global_batch);
    out.assumptions.push_back("global batch");
  }
  const std::int64_t micro_batches = s.batch.num_micro_batches(l.dp);
  l.sequence_parallel = out.facts.sequence_parallel;

  std::string format = compute_format(row.precision);
  if (has(row.precision, "rowwise")) {
    // Matmuls with a scale a row were no faster than 16-bit ones when these were measured.
    format = "bfloat16";
    out.assumptions.push_back("rate of rowwise-scaled matmuls");
  }
  s.precision.compute = format_of(format);
  if (format.empty()) out.assumptions.push_back("precision");
  s.precision.reduce_bytes = out.facts.reduce_bytes;
  if (format == "mxfp8" || format == "nvfp4" || has(row.notes, "fp8 all-gather") || has(row.overlap, "fp8 all-gather"))
    s.precision.gather_bytes = 1;
  if (has(row.notes, "Muon")) s.precision.moment_bytes = 4, l.matrix_owners = true;
  if (has(row.notes, "w/o MTP") || has(row.notes, "without MTP") || has(row.overlap, "no MTP") ||
      has(row.notes, "MTP off"))
    s.model.mtp_depth = 0;
  else if (has(row.notes, "includes 1 MTP") || has(row.notes, "includes MTP"))
    s.model.mtp_depth = std::max(1, s.model.mtp_depth);

  set_recompute(row, out);
  set_sharding(row, out);
  set_overlap_and_execution(row, out);
  if (l.pp > 1) {
    if (l.virtual_stages > 1 && l.pp * l.virtual_stages > s.model.num_layers + 2) {
      l.virtual_stages = std::max(1, s.model.num_layers / l.pp);
      out.assumptions.push_back("virtual stages");
    }
    const int pieces = l.pp * l.virtual_stages;
    l.stage_layers = pipeline_layout(row.overlap + " " + row.notes, pieces, s.model.num_layers);
    if (l.stage_layers.empty()) l.stage_layers = uneven_pieces(pieces, s.model.num_layers, s.model.mtp_depth);
    l.schedule = l.virtual_stages > 1 && micro_batches % l.pp == 0 ? "interleaved_1f1b" : "1f1b";
    // Experts' messages beside another micro-batch need forwards joined with backwards.
    if (l.overlap.experts && (l.virtual_stages == 1 || micro_batches % l.pp == 0)) l.schedule = "merged_1f1b";
    if (l.schedule == "1f1b" && l.virtual_stages > 1) {
      out.assumptions.push_back("schedule");
      l.virtual_stages = 1, l.stage_layers = uneven_pieces(l.pp, s.model.num_layers, s.model.mtp_depth);
    }
  }
  out.flops_per_token = model::flops_per_token(s.model, *row.sequence, out.facts.flops).total();
  return out;
}

}  // namespace trireme::search
