#include "search/layouts/question_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config_table.h"
#include "plan/all_to_all/generators.h"
#include "plan/layout_keys.h"
#include "sim/estimate/machine.h"

namespace trireme::search {

namespace {

std::string key_of(const std::string& text) {
  std::string key = text.substr(0, text.find('='));
  std::erase(key, ' ');
  return key;
}

sim::Precision read_precision(ConfigTable t) {
  sim::Precision p;
  const std::string format =
      t.one_of_or("compute", model::name_of(p.compute), {"float32", "bfloat16", "float16", "float8", "mxfp8", "nvfp4"});
  p.compute = model::compute_format_from_name(format);
  if (p.compute == sim::ComputeFormat::float32)
    p.weight_bytes = p.activation_bytes = p.dispatch_bytes = p.gather_bytes = 4, p.master_bytes = 0;
  p.weight_bytes = t.number_or("weight_bytes", p.weight_bytes, 0.25, 8);
  p.gradient_bytes = t.number_or("gradient_bytes", p.gradient_bytes, 0.25, 8);
  p.master_bytes = t.number_or("master_bytes", p.master_bytes, 0, 8);
  p.moment_bytes = t.number_or("moment_bytes", p.moment_bytes, 0, 16);
  p.reduce_bytes = t.number_or("reduce_bytes", p.reduce_bytes, 0.25, 8);
  p.gather_bytes = t.number_or("gather_bytes", p.gather_bytes, 0.25, 8);
  p.activation_bytes = t.number_or("activation_bytes", p.activation_bytes, 0.25, 8);
  p.dispatch_bytes = t.number_or("dispatch_bytes", p.dispatch_bytes, 0.25, 8);
  return p;
}

sim::ExpertLoad read_load(ConfigTable t, int num_experts) {
  sim::ExpertLoad load;
  load.cv = t.number_or("cv", 0, 0, 100);
  load.cold_start_cv = t.number_or("cold_start_cv", 0, 0, 100);
  load.counts = t.numbers_or("counts", {}, 0);
  if (!load.counts.empty() && std::ranges::all_of(load.counts, [](double n) { return n == 0; }))
    t.fail("counts", "at least one expert must get rows");
  if (!load.counts.empty() && static_cast<int>(load.counts.size()) != num_experts)
    t.fail("counts", fmt::format("one number for each of the {} experts", num_experts));
  return load;
}

sim::Execution read_execution(ConfigTable t) {
  sim::Execution e;
  const std::string graphs = t.one_of_or("graphs", "none", {"none", "parts", "whole"});
  e.graphs = graphs == "none" ? sim::Graphs::none : graphs == "parts" ? sim::Graphs::parts : sim::Graphs::whole;
  e.fused_attention = t.boolean_or("fused_attention", e.fused_attention);
  e.fused_loss = t.boolean_or("fused_loss", e.fused_loss);
  e.reads_counts = t.boolean_or("reads_counts", e.reads_counts);
  e.launches_by_expert = t.boolean_or("launches_by_expert", e.launches_by_expert);
  e.dropout = t.boolean_or("dropout", e.dropout);
  e.current_scaling = t.boolean_or("current_scaling", e.current_scaling);
  e.exchange_links = t.number_or("exchange_links", e.exchange_links, 0.001, 1);
  e.fused_experts = t.boolean_or("fused_experts", e.fused_experts);
  e.newton_schulz_flops_per_s = t.number_or("newton_schulz_TFLOPps", 0, 0, 1e9) * 1e12;
  e.alternate_matmuls = t.boolean_or("alternate_matmuls", e.alternate_matmuls);
  e.frozen_weights = t.boolean_or("frozen_weights", e.frozen_weights);
  return e;
}

std::int64_t default_global_batch(std::int64_t devices) {
  return devices * std::clamp<std::int64_t>(16384 / devices, 1, 8);
}

}  // namespace

bool is_model_key(const std::string& text) {
  return key_of(text).starts_with("model.");
}

GivenValues read_question(const model::ModelSpec& model, int num_devices, const std::vector<std::string>& overrides) {
  ConfigTable table = ConfigTable::from_text("", "--set", overrides);
  GivenValues out;
  sim::Setting& s = out.setting;
  s.model = model, s.num_devices = num_devices;
  std::vector<std::string> patterns = plan::priced_pattern_names();
  patterns.push_back("auto");
  s.layout = plan::read_layout(table.table("layout"), patterns);
  const bool any_pattern = s.layout.all_to_all == "auto";
  if (any_pattern) s.layout.all_to_all = plan::LayoutSpec{}.all_to_all;
  ConfigTable batch = table.table("batch");
  s.batch.sequence_length = batch.integer_or("sequence_length", 4096, 1, 1 << 30);
  s.batch.micro_batch = batch.integer_or("micro_batch", 1, 1, 1 << 30);
  s.batch.global_batch = batch.integer_or("global_batch", default_global_batch(num_devices), 1, 1 << 30);
  s.precision = read_precision(table.table("precision"));
  s.load = read_load(table.table("load"), model.moe.num_experts);
  s.execution = read_execution(table.table("execution"));
  out.kernels = table.string_or("kernels", "");
  // Its name before the same data described time, too.
  if (table.has("memory_profile")) {
    if (!out.kernels.empty()) table.fail("memory_profile", "what `kernels` is called now: give one of the two");
    out.kernels = table.string("memory_profile");
    out.hints.push_back("memory_profile is called kernels now");
  }
  table.finish();
  for (const std::string& key : table.given()) out.given.insert(key);
  // Zero lets the data degree follow, as in a run's file.
  if (s.layout.dp == 0) out.given.erase("layout.dp");
  // The search chooses the pattern that a run would.
  if (any_pattern) out.given.erase("layout.all_to_all");
  return out;
}

}  // namespace trireme::search
