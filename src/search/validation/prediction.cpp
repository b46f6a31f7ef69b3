#include "search/validation/prediction.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "base/units.h"
#include "plan/pipeline/generators.h"
#include "platform/platform_file.h"
#include "search/layouts/layout_rules.h"
#include "search/validation/stack_facts.h"
#include "sim/estimate/memory.h"
#include "sim/rates/sheet_rates.h"

namespace trireme::search {

const platform::PlatformSpec& PlatformLibrary::get(const std::string& name) {
  const auto found = loaded_.find(name);
  if (found != loaded_.end()) return found->second;
  return loaded_.emplace(name, platform::load_platform(folder_ / (name + ".toml"))).first->second;
}

std::vector<PreparedRow> prepare(const std::vector<Row>& rows, const FindModel& find_model,
                                 PlatformLibrary& platforms) {
  std::vector<PreparedRow> out;
  std::map<std::string, std::shared_ptr<const sim::CompiledGrid>> grids;
  std::vector<std::shared_ptr<const sim::StepModel>> models;
  for (const Row& row : rows) {
    PreparedRow& p = out.emplace_back();
    p.row = row;
    p.resolved = resolve(row, find_model);
    if (!p.resolved.skipped.empty()) continue;
    p.platform = &platforms.get(p.resolved.platform);
    const sim::Setting& s = p.resolved.setting;
    if (schedule_slots(s) > most_slots) {
      p.resolved.skipped = fmt::format("{} micro-batches on {} stages are more than can be simulated",
                                       s.batch.num_micro_batches(s.layout.dp), s.layout.pp);
      continue;
    }
    if (!p.is_time()) continue;
    for (const auto& m : models)
      if (m->setting() == s) p.model = m;
    if (p.model) continue;
    auto& grid = grids[fmt::format("{} {} {} {} {}", s.layout.schedule, s.layout.pp, s.layout.virtual_stages,
                                   s.batch.num_micro_batches(s.layout.dp), s.layout.micro_batch_group)];
    try {
      if (!grid) grid = sim::compile_grid(s);
      p.model = std::make_shared<sim::StepModel>(s, grid);
      models.push_back(p.model);
    } catch (const ConfigError& e) {
      p.resolved.skipped = e.what();
    }
  }
  return out;
}

namespace {

// The row's unit of a step that takes this long.
double in_unit(const PreparedRow& p, double step_s) {
  const sim::Setting& s = p.resolved.setting;
  const double tokens = double(s.batch.global_batch) * double(s.batch.sequence_length) * p.resolved.counted_share;
  const double rate = tokens / step_s / s.num_devices;
  switch (p.row.quantity) {
    case Quantity::step_s:
      return p.row.unit.starts_with("ms") ? step_s * 1e3 : step_s;
    case Quantity::tokens_per_s:
      return rate;
    case Quantity::tflops:
      return rate * p.resolved.flops_per_token / 1e12;
    case Quantity::mfu:
      return 100 * rate * p.resolved.flops_per_token / p.platform->datasheet.peak(model::name_of(s.precision.compute));
    case Quantity::allocated_GiB:
    case Quantity::reserved_GiB:
      break;
  }
  return 0;
}

}  // namespace

double predict(const PreparedRow& p, const platform::DeviceEfficiency& device, const platform::StackBehaviour& stack,
               sim::GridWorkspace& workspace) {
  if (!p.is_time()) return predict_memory(p);
  const sim::SheetRates rates(*p.platform, device, stack, p.resolved.setting.precision.compute);
  return in_unit(p, p.model->evaluate(rates, workspace).step_s);
}

double predict_memory(const PreparedRow& p) {
  const sim::Setting& s = p.resolved.setting;
  const plan::Schedule schedule = sim::schedule_of(s);
  const sim::MemoryEstimate e =
      sim::estimate_memory(s, schedule, kernels_of(p.resolved.facts.name), {.items = false});
  return (p.row.quantity == Quantity::allocated_GiB ? e.allocated_bytes() : e.reserved_bytes()) / GiB;
}

double predict_by_utilisation(const PreparedRow& p, double utilisation) {
  const sim::Setting& s = p.resolved.setting;
  const double flops = double(s.batch.global_batch) * double(s.batch.sequence_length) * p.resolved.counted_share *
                       p.resolved.flops_per_token;
  return in_unit(p,
                 flops / (utilisation * p.platform->datasheet.peak(model::name_of(s.precision.compute)) * s.num_devices));
}

double utilisation_of(const PreparedRow& p) {
  const double at_one = predict_by_utilisation(p, 1);
  return p.row.quantity == Quantity::step_s ? at_one / p.row.measured : p.row.measured / at_one;
}

}  // namespace trireme::search
