// ModelSpec <-> TOML. Each table's keys are listed once, for a reader and a writer.
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/model_spec.h"

namespace trireme::model {
namespace {

constexpr double smallest = smallest_number;  // in place of "positive"

template <class E>
using Name = std::pair<std::string_view, E>;

constexpr Name<Family> families[] = {
    {"trireme", Family::trireme}, {"mixtral", Family::mixtral}, {"qwen3_moe", Family::qwen3_moe}};
constexpr Name<Activation> activations[] = {
    {"silu", Activation::silu}, {"gelu", Activation::gelu}, {"squared_relu", Activation::squared_relu}};
constexpr Name<NormKind> norms[] = {{"rms", NormKind::rms}, {"layer", NormKind::layer}};
constexpr Name<AttentionKind> attention_kinds[] = {{"grouped", AttentionKind::grouped},
                                                   {"latent", AttentionKind::latent}};
constexpr Name<RopeScaling> rope_scalings[] = {{"none", RopeScaling::none},       {"linear", RopeScaling::linear},
                                               {"dynamic", RopeScaling::dynamic}, {"yarn", RopeScaling::yarn},
                                               {"llama3", RopeScaling::llama3},   {"longrope", RopeScaling::longrope}};
constexpr Name<ScoreFunction> scores[] = {{"softmax", ScoreFunction::softmax},
                                          {"sigmoid", ScoreFunction::sigmoid},
                                          {"sqrt_softplus", ScoreFunction::sqrt_softplus}};
constexpr Name<AuxLossLevel> aux_loss_levels[] = {{"sequence", AuxLossLevel::sequence},
                                                  {"micro_batch", AuxLossLevel::micro_batch}};
constexpr Name<LinearMixerKind> linear_kinds[] = {{"none", LinearMixerKind::none},
                                                  {"mamba2", LinearMixerKind::mamba2},
                                                  {"gated_delta", LinearMixerKind::gated_delta}};

// Fills fields from a table; an absent key leaves its field.
class Reader {
 public:
  explicit Reader(ConfigTable table) : table_(std::move(table)) {}
  Reader sub(std::string_view key) { return Reader(table_.table(key)); }
  ConfigTable& table() { return table_; }

  void integer(std::string_view key, int& field, std::int64_t at_least = 0) {
    field = static_cast<int>(table_.integer_or(key, field, at_least, INT32_MAX));
  }
  void required(std::string_view key, auto& field) {
    field = static_cast<std::remove_reference_t<decltype(field)>>(table_.integer(key, 1, INT32_MAX));
  }
  void number(std::string_view key, double& field, double at_least = -largest_number) {
    field = table_.number_or(key, field, at_least);
  }
  void boolean(std::string_view key, bool& field) { field = table_.boolean_or(key, field); }
  void text(std::string_view key, std::string& field) { field = table_.string_or(key, field); }
  void integers(std::string_view key, std::vector<int>& field) {
    const std::vector<std::int64_t> found = table_.integers_or(key, {field.begin(), field.end()}, 0, INT32_MAX);
    field.assign(found.begin(), found.end());
  }
  template <class E, std::size_t N>
  void choice(std::string_view key, E& field, const Name<E> (&names)[N]) {
    std::string allowed, chosen;
    for (const auto& [name, value] : names) {
      allowed += (allowed.empty() ? "" : ", ") + std::string(name);
      if (value == field) chosen = name;
    }
    chosen = table_.string_or(key, chosen);
    for (const auto& [name, value] : names)
      if (name == chosen) {
        field = value;
        return;
      }
    table_.fail(key, "must be one of " + allowed);
  }

 private:
  ConfigTable table_;
};

class Writer {
 public:
  Writer(std::string& out, std::string name) : out_(out), name_(std::move(name)) {
    out_ += (out_.empty() ? "[" : "\n[") + name_ + "]\n";
  }
  Writer sub(std::string_view key) { return {out_, fmt::format("{}.{}", name_, key)}; }

  void integer(std::string_view key, const int& field, std::int64_t = 0) { line(key, field); }
  void required(std::string_view key, const auto& field) { line(key, field); }
  void number(std::string_view key, const double& field, double = 0) { line(key, field); }
  void boolean(std::string_view key, const bool& field) { line(key, field); }
  void text(std::string_view key, const std::string& field) { line(key, nlohmann::json(field).dump()); }
  void integers(std::string_view key, const std::vector<int>& field) { line(key, nlohmann::json(field).dump()); }
  template <class E, std::size_t N>
  void choice(std::string_view key, const E& field, const Name<E> (&names)[N]) {
    for (const auto& [name, value] : names)
      if (value == field) line(key, fmt::format("\"{}\"", name));
  }

 private:
  void line(std::string_view key, const auto& value) { out_ += fmt::format("{} = {}\n", key, value); }
  std::string& out_;
  std::string name_;
};

void visit_attention(auto&& io, auto& a) {
  io.choice("kind", a.kind, attention_kinds);
  io.boolean("qk_norm", a.qk_norm);
  io.boolean("qk_norm_joint", a.qk_norm_joint);
  io.boolean("bias", a.bias);
  io.boolean("output_bias", a.output_bias);
  io.number("rope_theta", a.rope_theta, smallest);
  io.number("rope_fraction", a.rope_fraction, 0);
  io.choice("rope_scaling", a.rope_scaling, rope_scalings);
  io.integer("q_lora_rank", a.q_lora_rank);
  io.integer("kv_lora_rank", a.kv_lora_rank);
  io.integer("qk_nope_dim", a.qk_nope_dim);
  io.integer("qk_rope_dim", a.qk_rope_dim);
  io.integer("v_head_dim", a.v_head_dim);
  io.integer("window", a.window);
  io.integer("full_every", a.full_every);
  io.integer("full_offset", a.full_offset);
  io.boolean("chunked", a.chunked);
  io.boolean("sinks", a.sinks);
  io.boolean("output_gate", a.output_gate);
  io.boolean("shared_kv", a.shared_kv);
  io.integer("o_lora_rank", a.o_lora_rank);
  io.integer("o_groups", a.o_groups, 1);
  io.integers("compression", a.compression);
  io.integer("index_top_k", a.index_top_k);
  io.integer("index_compression", a.index_compression);
  io.integer("index_heads", a.index_heads);
  io.integer("index_head_dim", a.index_head_dim);
}

void visit_router(auto&& io, auto& r) {
  io.choice("score", r.score, scores);
  io.boolean("renormalise", r.renormalise);
  io.number("scale", r.scale, smallest);
  io.integer("num_groups", r.num_groups, 1);
  io.boolean("group_by_maximum", r.group_by_maximum);
  io.boolean("bias", r.bias);
  io.boolean("scores_input", r.scores_input);
  io.boolean("selection_bias", r.selection_bias);
  io.number("selection_bias_rate", r.selection_bias_rate, 0);
  io.number("aux_loss_coefficient", r.aux_loss_coefficient, 0);
  io.choice("aux_loss_level", r.aux_loss_level, aux_loss_levels);
  io.number("z_loss_coefficient", r.z_loss_coefficient, 0);
}

void visit_moe(auto&& io, auto& m) {
  io.integer("num_experts", m.num_experts);
  io.integer("expert_ffn", m.expert_ffn);
  io.integer("shared_ffn", m.shared_ffn);
  io.boolean("shared_gate", m.shared_gate);
  io.boolean("expert_bias", m.expert_bias);
  io.integer("latent_dim", m.latent_dim);
  io.integer("every", m.every, 1);
  io.integer("offset", m.offset);
}

void visit_linear(auto&& io, auto& l) {
  io.choice("kind", l.kind, linear_kinds);
  io.integer("num_heads", l.num_heads);
  io.integer("head_dim", l.head_dim);
  io.integer("num_groups", l.num_groups, 1);
  io.integer("state_dim", l.state_dim);
  io.integer("conv_width", l.conv_width, 1);
  io.integer("attention_every", l.attention_every);
  io.integer("attention_offset", l.attention_offset);
}

void visit_model(auto&& io, auto& s) {
  io.text("name", s.name);
  io.choice("family", s.family, families);
  io.required("vocab_size", s.vocab_size);
  io.required("hidden", s.hidden);
  io.required("num_layers", s.num_layers);
  io.integer("num_dense_layers", s.num_dense_layers);
  io.integer("dense_ffn", s.dense_ffn);
  io.boolean("gated", s.gated);
  io.choice("activation", s.activation, activations);
  io.boolean("mlp_bias", s.mlp_bias);
  io.choice("norm", s.norm, norms);
  io.number("norm_eps", s.norm_eps);
  io.boolean("sandwich_norms", s.sandwich_norms);
  io.integer("learned_positions", s.learned_positions);
  io.boolean("tied_embeddings", s.tied_embeddings);
  io.number("init_std", s.init_std);
  io.integer("residual_streams", s.residual_streams, 1);
  io.integer("mtp_depth", s.mtp_depth);
  io.boolean("mtp_shared", s.mtp_shared);
  io.text("pattern", s.pattern);
}

// The sizes that follow from others where they are not given.
void read_attention_sizes(ConfigTable& table, AttentionSpec& a, int hidden) {
  a.num_heads = static_cast<int>(table.integer("num_heads", 1, INT32_MAX));
  a.num_kv_heads = static_cast<int>(table.integer_or("num_kv_heads", a.num_heads, 1, INT32_MAX));
  int head_dim = hidden / a.num_heads;
  if (a.kind == AttentionKind::latent)
    head_dim = a.qk_nope_dim + a.qk_rope_dim;
  else if (!table.has("head_dim") && hidden % a.num_heads != 0)
    table.fail("num_heads", fmt::format("must divide model.hidden ({}) where head_dim is not given", hidden));
  a.head_dim = static_cast<int>(table.integer_or("head_dim", head_dim, 1, INT32_MAX));
}

}  // namespace

ModelSpec read_model(ConfigTable& table) {
  ModelSpec spec;
  visit_model(Reader(table), spec);
  Reader attention(table.table("attention"));
  visit_attention(attention, spec.attention);
  read_attention_sizes(attention.table(), spec.attention, spec.hidden);
  Reader moe(table.table("moe"));
  visit_moe(moe, spec.moe);
  RouterSpec& r = spec.moe.router;
  Reader router = moe.sub("router");
  if (spec.moe.num_experts > 0)
    router.required("top_k", r.top_k);
  else
    router.integer("top_k", r.top_k);
  visit_router(router, r);
  r.top_groups = r.num_groups;
  router.integer("top_groups", r.top_groups, 1);
  visit_linear(Reader(table.table("linear")), spec.linear);
  validate(spec, table.file());
  return spec;
}

std::string to_toml(const ModelSpec& spec) {
  std::string out;
  Writer model(out, "model");
  visit_model(model, spec);
  Writer attention = model.sub("attention");
  attention.required("num_heads", spec.attention.num_heads);
  attention.required("num_kv_heads", spec.attention.num_kv_heads);
  attention.required("head_dim", spec.attention.head_dim);
  visit_attention(attention, spec.attention);
  Writer moe = model.sub("moe");
  visit_moe(moe, spec.moe);
  Writer router = moe.sub("router");
  router.required("top_k", spec.moe.router.top_k);
  visit_router(router, spec.moe.router);
  router.required("top_groups", spec.moe.router.top_groups);
  visit_linear(model.sub("linear"), spec.linear);
  return out;
}

}  // namespace trireme::model
