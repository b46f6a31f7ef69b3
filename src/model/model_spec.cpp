#include "model/model_spec.h"

#include <fstream>

#include "base/errors.h"
#include "model/hf_config.h"

namespace trireme::model {
namespace {

constexpr double unbounded = 1e300;

Family family_from(const std::string& name) {
  if (name == "mixtral") return Family::mixtral;
  if (name == "qwen3_moe") return Family::qwen3_moe;
  return Family::trireme;
}

void read_attention(ConfigTable table, AttentionSpec& a, int hidden) {
  a.num_heads = static_cast<int>(table.integer("num_heads", 1, INT32_MAX));
  a.num_kv_heads = static_cast<int>(table.integer_or("num_kv_heads", a.num_heads, 1, INT32_MAX));
  if (!table.has("head_dim") && hidden % a.num_heads != 0)
    table.fail("num_heads", fmt::format("must divide model.hidden ({}) where head_dim is not given", hidden));
  a.head_dim = static_cast<int>(table.integer_or("head_dim", hidden / a.num_heads, 1, INT32_MAX));
  a.qk_norm = table.boolean_or("qk_norm", a.qk_norm);
  a.bias = table.boolean_or("bias", a.bias);
  a.output_bias = table.boolean_or("output_bias", a.output_bias);
  a.rope_theta = table.number_or("rope_theta", a.rope_theta, 1e-300, unbounded);
}

void read_router(ConfigTable table, RouterSpec& r, bool moe) {
  r.top_k = static_cast<int>(moe ? table.integer("top_k", 1, INT32_MAX) : table.integer_or("top_k", 0, 0, INT32_MAX));
  r.score = table.one_of_or("score", "softmax", {"softmax", "sigmoid"}) == "sigmoid" ? ScoreFunction::sigmoid
                                                                                     : ScoreFunction::softmax;
  r.renormalise = table.boolean_or("renormalise", r.renormalise);
  r.scale = table.number_or("scale", r.scale, 1e-300, unbounded);
  r.num_groups = static_cast<int>(table.integer_or("num_groups", r.num_groups, 1, INT32_MAX));
  r.top_groups = static_cast<int>(table.integer_or("top_groups", r.num_groups, 1, INT32_MAX));
  r.selection_bias = table.boolean_or("selection_bias", r.selection_bias);
  r.selection_bias_rate = table.number_or("selection_bias_rate", r.selection_bias_rate, 0, unbounded);
  r.aux_loss_coefficient = table.number_or("aux_loss_coefficient", r.aux_loss_coefficient, 0, unbounded);
  r.aux_loss_level = table.one_of_or("aux_loss_level", "sequence", {"sequence", "micro_batch"}) == "sequence"
                         ? AuxLossLevel::sequence
                         : AuxLossLevel::micro_batch;
  r.z_loss_coefficient = table.number_or("z_loss_coefficient", r.z_loss_coefficient, 0, unbounded);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

}  // namespace

void validate(const ModelSpec& spec, const std::string& file) {
  const auto require = [&](bool holds, const char* key, const auto& value, std::string allowed) {
    if (!holds)
      throw ConfigError({.file = file, .key = key, .value = fmt::format("{}", value), .allowed = std::move(allowed)});
  };
  const AttentionSpec& a = spec.attention;
  const RouterSpec& r = spec.moe.router;
  require(spec.vocab_size >= 1, "model.vocab_size", spec.vocab_size, "must be at least 1");
  require(spec.hidden >= 1, "model.hidden", spec.hidden, "must be at least 1");
  require(spec.num_layers >= 1, "model.num_layers", spec.num_layers, "must be at least 1");
  require(spec.num_dense_layers >= 0 && spec.num_dense_layers <= spec.num_layers, "model.num_dense_layers",
          spec.num_dense_layers, fmt::format("must lie in [0, model.num_layers ({})]", spec.num_layers));
  const bool dense = spec.moe.num_experts == 0 || spec.num_dense_layers > 0;
  require(!dense || spec.dense_ffn >= 1, "model.dense_ffn", spec.dense_ffn,
          "must be at least 1: the model has dense layers");
  require(spec.norm_eps > 0, "model.norm_eps", spec.norm_eps, "must be positive");
  require(spec.init_std > 0, "model.init_std", spec.init_std, "must be positive");
  require(a.num_heads >= 1, "model.attention.num_heads", a.num_heads, "must be at least 1");
  require(a.num_kv_heads >= 1 && a.num_heads % a.num_kv_heads == 0, "model.attention.num_kv_heads", a.num_kv_heads,
          fmt::format("must divide model.attention.num_heads ({})", a.num_heads));
  require(a.head_dim >= 2 && a.head_dim % 2 == 0, "model.attention.head_dim", a.head_dim,
          "must be even and at least 2: rotary positions turn pairs");
  require(a.rope_theta > 0, "model.attention.rope_theta", a.rope_theta, "must be positive");
  if (spec.moe.num_experts == 0) return;

  const int experts = spec.moe.num_experts;
  require(experts >= 1, "model.moe.num_experts", experts, "must not be negative");
  require(spec.moe.expert_ffn >= 1, "model.moe.expert_ffn", spec.moe.expert_ffn, "must be at least 1");
  require(spec.moe.shared_ffn >= 0, "model.moe.shared_ffn", spec.moe.shared_ffn, "must not be negative");
  require(r.top_k >= 1 && r.top_k <= experts, "model.moe.router.top_k", r.top_k,
          fmt::format("must lie in [1, model.moe.num_experts ({})]", experts));
  require(r.scale > 0, "model.moe.router.scale", r.scale, "must be positive");
  require(r.num_groups >= 1 && experts % r.num_groups == 0, "model.moe.router.num_groups", r.num_groups,
          fmt::format("must divide model.moe.num_experts ({})", experts));
  const int group_size = experts / r.num_groups;
  require(r.num_groups == 1 || group_size >= 2, "model.moe.router.num_groups", r.num_groups,
          "leaves groups of one expert: a group is scored by its two best");
  require(r.top_groups >= 1 && r.top_groups <= r.num_groups, "model.moe.router.top_groups", r.top_groups,
          fmt::format("must lie in [1, model.moe.router.num_groups ({})]", r.num_groups));
  require(r.top_k <= r.top_groups * group_size, "model.moe.router.top_k", r.top_k,
          fmt::format("must be at most the {} experts of model.moe.router.top_groups ({}) groups",
                      r.top_groups * group_size, r.top_groups));
  require(r.aux_loss_coefficient >= 0, "model.moe.router.aux_loss_coefficient", r.aux_loss_coefficient,
          "must not be negative");
  require(r.z_loss_coefficient >= 0, "model.moe.router.z_loss_coefficient", r.z_loss_coefficient,
          "must not be negative");
}

ModelSpec read_model(ConfigTable& table) {
  ModelSpec spec;
  spec.name = table.string_or("name", spec.name);
  spec.family = family_from(table.one_of_or("family", "trireme", {"trireme", "mixtral", "qwen3_moe"}));
  spec.vocab_size = table.integer("vocab_size", 1, INT32_MAX);
  spec.hidden = static_cast<int>(table.integer("hidden", 1, INT32_MAX));
  spec.num_layers = static_cast<int>(table.integer("num_layers", 1, INT32_MAX));
  spec.num_dense_layers = static_cast<int>(table.integer_or("num_dense_layers", 0, 0, INT32_MAX));
  spec.dense_ffn = static_cast<int>(table.integer_or("dense_ffn", 0, 0, INT32_MAX));
  spec.norm_eps = table.number_or("norm_eps", spec.norm_eps);
  spec.tied_embeddings = table.boolean_or("tied_embeddings", spec.tied_embeddings);
  spec.init_std = table.number_or("init_std", spec.init_std);
  read_attention(table.table("attention"), spec.attention, spec.hidden);

  ConfigTable moe = table.table("moe");
  spec.moe.num_experts = static_cast<int>(moe.integer_or("num_experts", 0, 0, INT32_MAX));
  spec.moe.expert_ffn = static_cast<int>(moe.integer_or("expert_ffn", 0, 0, INT32_MAX));
  spec.moe.shared_ffn = static_cast<int>(moe.integer_or("shared_ffn", 0, 0, INT32_MAX));
  read_router(moe.table("router"), spec.moe.router, spec.moe.num_experts > 0);
  validate(spec, table.file());
  return spec;
}

std::string to_toml(const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  const RouterSpec& r = spec.moe.router;
  const char* families[] = {"trireme", "mixtral", "qwen3_moe"};
  std::string out = "[model]\n";
  const auto line = [&](const char* key, const auto& value) { out += fmt::format("{} = {}\n", key, value); };
  line("name", quoted(spec.name));
  line("family", quoted(families[static_cast<int>(spec.family)]));
  line("vocab_size", spec.vocab_size);
  line("hidden", spec.hidden);
  line("num_layers", spec.num_layers);
  line("num_dense_layers", spec.num_dense_layers);
  line("dense_ffn", spec.dense_ffn);
  line("norm_eps", spec.norm_eps);
  line("tied_embeddings", spec.tied_embeddings);
  line("init_std", spec.init_std);
  out += "\n[model.attention]\n";
  line("num_heads", a.num_heads);
  line("num_kv_heads", a.num_kv_heads);
  line("head_dim", a.head_dim);
  line("qk_norm", a.qk_norm);
  line("bias", a.bias);
  line("output_bias", a.output_bias);
  line("rope_theta", a.rope_theta);
  out += "\n[model.moe]\n";
  line("num_experts", spec.moe.num_experts);
  line("expert_ffn", spec.moe.expert_ffn);
  line("shared_ffn", spec.moe.shared_ffn);
  out += "\n[model.moe.router]\n";
  line("top_k", r.top_k);
  line("score", r.score == ScoreFunction::sigmoid ? "\"sigmoid\"" : "\"softmax\"");
  line("renormalise", r.renormalise);
  line("scale", r.scale);
  line("num_groups", r.num_groups);
  line("top_groups", r.top_groups);
  line("selection_bias", r.selection_bias);
  line("selection_bias_rate", r.selection_bias_rate);
  line("aux_loss_coefficient", r.aux_loss_coefficient);
  line("aux_loss_level", r.aux_loss_level == AuxLossLevel::sequence ? "\"sequence\"" : "\"micro_batch\"");
  line("z_loss_coefficient", r.z_loss_coefficient);
  return out;
}

ModelSpec load_model(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const auto read = [](ConfigTable table) {
    ConfigTable model = table.table("model");
    ModelSpec spec = read_model(model);
    table.finish();
    return spec;
  };
  if (path.extension() != ".json") return read(ConfigTable::from_file(path, overrides));
  std::ifstream in(path);
  if (!in) throw ConfigError({.file = path.string(), .allowed = "no such file, or it cannot be read"});
  nlohmann::json config;
  try {
    config = nlohmann::json::parse(in);
  } catch (const nlohmann::json::exception& e) {
    throw ConfigError({.file = path.string(), .allowed = fmt::format("not valid JSON: {}", e.what())});
  }
  const ModelSpec spec = from_hf_config(config, path.string());
  return overrides.empty() ? spec : read(ConfigTable::from_text(to_toml(spec), path.string(), overrides));
}

}  // namespace trireme::model
