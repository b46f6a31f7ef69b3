#include "report/model_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/flops.h"
#include "model/parameters.h"
#include "model/untrainable.h"
#include "report/text_table.h"

namespace trireme::report {
namespace {

using model::FlopConvention;
using model::ModelSpec;

struct NamedConvention {
  const char* key;
  FlopConvention convention;
};

constexpr NamedConvention conventions[] = {
    {"model", {}},
    {"megatron", model::megatron_flops},
    {"full_square", model::full_square_flops},
    {"with_full_recompute", {.passes = 4}},
};

struct PartCounts {
  const char* key;
  std::int64_t parameters;
  double flops;
};

std::vector<PartCounts> parts_of(const ModelSpec& spec, std::int64_t sequence_length) {
  const model::ParameterParts p = model::parameters_of(spec, model::whole_model(spec, /*mtp=*/true));
  const model::FlopsPerToken f = model::flops_per_token(spec, sequence_length);
  return {{"embedding", p.embedding, 0},
          {"attention", p.attention, f.projections + f.scores},
          {"norms", p.norms, 0},
          {"router", p.router, f.router},
          {"routed_experts", p.routed_experts, f.routed_experts},
          {"shared_experts", p.shared_experts, f.shared_experts},
          {"dense", p.dense, f.dense},
          {"mtp", p.mtp, f.mtp},
          {"head", p.head, f.head}};
}

// Billions, so that a column compares; of a small model thousands or millions, which are not 0.00 of a billion.
std::string billions(std::int64_t count) {
  return count < 100'000'000 ? show_count(static_cast<double>(count)) : fmt::format("{:.2f} B", static_cast<double>(count) / 1e9);
}

// A small model's are not 0.0 either.
std::string gflop(double flops, int digits) {
  const double value = flops / 1e9;
  return value != 0 && value < 0.1 ? fmt::format("{:.2g}", value) : fmt::format("{:.{}f}", value, digits);
}

std::string experts_of(const ModelSpec& spec) {
  if (spec.moe.num_experts == 0) return "-";
  return fmt::format("{} of {}{}", spec.moe.router.top_k, spec.moe.num_experts,
                     spec.moe.shared_ffn > 0 ? " + shared" : "");
}

std::string attention_of(const ModelSpec& spec) {
  const model::AttentionSpec& a = spec.attention;
  std::string kind = a.kind == model::AttentionKind::latent ? "MLA"
                     : a.num_kv_heads == a.num_heads        ? "MHA"
                     : a.num_kv_heads == 1                  ? "MQA"
                                                            : "GQA";
  if (!a.compression.empty()) kind += ", compressed";
  if (a.window > 0) kind += fmt::format(", {} {}", a.chunked ? "chunks" : "window", a.window);
  if (spec.linear.kind == model::LinearMixerKind::mamba2) kind += ", Mamba-2";
  if (spec.linear.kind == model::LinearMixerKind::gated_delta) kind += ", gated delta";
  return kind;
}

std::vector<std::string> heading(std::int64_t sequence_length) {
  return {"model",     "layers",   "hidden",
          "attention", "experts",  "parameters",
          "active",    "no embed", fmt::format("GFLOP/token, s {}", sequence_length)};
}

std::vector<std::string> row_of(const NamedModel& m, std::int64_t sequence_length) {
  const model::ParameterCounts counts = model::count_parameters(m.spec);
  return {m.name,
          std::to_string(m.spec.num_layers),
          std::to_string(m.spec.hidden),
          attention_of(m.spec),
          experts_of(m.spec),
          billions(counts.total),
          billions(counts.active),
          billions(counts.active_without_embedding),
          gflop(model::flops_per_token(m.spec, sequence_length, model::megatron_flops).total(), 1)};
}

}  // namespace

nlohmann::json model_json(const ModelSpec& spec, std::int64_t sequence_length) {
  const model::ParameterCounts counts = model::count_parameters(spec);
  nlohmann::json j = {
      {"name", spec.name},
      {"params_total", counts.total},
      {"params_active", counts.active},
      {"params_active_without_embedding", counts.active_without_embedding},
      {"params_with_mtp", model::parameters_of(spec, model::whole_model(spec, true)).total()},
      {"sequence_length", sequence_length},
  };
  for (const PartCounts& part : parts_of(spec, sequence_length))
    j["parts"][part.key] = {{"params", part.parameters}, {"flops_per_token", part.flops}};
  for (const NamedConvention& c : conventions)
    j["flops_per_token"][c.key] = {{"value", model::flops_per_token(spec, sequence_length, c.convention).total()},
                                   {"convention", model::to_text(c.convention, spec)}};
  j["untrainable"] = nlohmann::json::array();
  for (const model::Untrainable& u : model::untrainable(spec))
    j["untrainable"].push_back({{"key", u.key}, {"value", u.value}, {"reason", u.reason}});
  return j;
}

std::string model_text(const ModelSpec& spec, std::int64_t sequence_length) {
  const model::ParameterCounts counts = model::count_parameters(spec);
  std::string out =
      fmt::format("{}: {} layers, hidden {}, {}", spec.name, spec.num_layers, spec.hidden, attention_of(spec));
  if (spec.moe.num_experts > 0)
    out += fmt::format(", experts {} in {} layers", experts_of(spec), spec.num_moe_layers());
  out += "\n\n";
  TextTable sizes({"parameters", "", "of"}, /*last_left=*/true);
  const auto size = [&](const char* what, std::int64_t count, const char* of) {
    sizes.add({what, fmt::format("{} ({})", billions(count), count), of});
  };
  size("total", counts.total, spec.mtp_depth > 0 ? "without the MTP block" : "");
  if (spec.mtp_depth > 0)
    size("total", model::parameters_of(spec, model::whole_model(spec, true)).total(), "with the MTP block");
  size("active", counts.active, "a token's top-k experts; both embeddings");
  size("active", counts.active_without_embedding, "without the input embedding");
  out += sizes.text() + "\n";

  TextTable parts({"part", "parameters", "share", "GFLOP/token", "share"});
  const std::vector<PartCounts> list = parts_of(spec, sequence_length);
  double parameters = 0, flops = 0;
  for (const PartCounts& part : list) parameters += static_cast<double>(part.parameters), flops += part.flops;
  for (const PartCounts& part : list) {
    if (part.parameters == 0 && part.flops == 0) continue;
    const auto count = static_cast<double>(part.parameters);
    parts.add({part.key, show_count(count), fmt::format("{:.1f} %", 100 * count / parameters),
               gflop(part.flops, 2), fmt::format("{:.1f} %", 100 * part.flops / flops)});
  }
  out += parts.text() + "\n";
  for (const NamedConvention& c : conventions)
    out += "  " + model::gflop_per_token_text(spec, sequence_length, c.convention) + "\n";

  std::string reasons;
  for (const model::Untrainable& u : model::untrainable(spec)) reasons += (reasons.empty() ? "" : ", ") + u.reason;
  if (!reasons.empty()) out += fmt::format("\n  planned, not trained yet: it has {}\n", reasons);
  return out;
}

std::string model_list_text(const std::vector<NamedModel>& models, std::int64_t sequence_length) {
  TextTable table(heading(sequence_length));
  for (const NamedModel& m : models) table.add(row_of(m, sequence_length));
  return table.text();
}

std::string model_list_markdown(const std::vector<NamedModel>& models, std::int64_t sequence_length) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string out = "|";
    for (const std::string& cell : cells) out += fmt::format(" {} |", cell);
    return out + "\n";
  };
  const std::vector<std::string> names = heading(sequence_length);
  std::string out = line(names) + "|";
  for (std::size_t i = 0; i < names.size(); ++i) out += "---|";
  out += "\n";
  for (const NamedModel& m : models) {
    std::vector<std::string> cells = row_of(m, sequence_length);
    cells[0] = fmt::format("`{}`", cells[0]);
    out += line(cells);
  }
  return out;
}

}  // namespace trireme::report
