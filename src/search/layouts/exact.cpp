#include "search/layouts/exact.h"

#include <fmt/format.h>

#include "search/layouts/layout_rules.h"

namespace trireme::search {

std::shared_ptr<const ReadySchedule> ScheduleShelf::get(const sim::Setting& s) {
  const plan::LayoutSpec& l = s.layout;
  const std::string key = fmt::format("{} {} {} {} {}", l.schedule, l.pp, l.virtual_stages,
                                      s.batch.num_micro_batches(l.dp), l.micro_batch_group);
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = ready_.find(key); at != ready_.end()) return at->second;
  }
  auto made = std::make_shared<ReadySchedule>();
  made->schedule = sim::schedule_of(s);
  made->grid = std::make_shared<sim::CompiledGrid>(sim::compile(made->schedule));
  const std::lock_guard lock(mutex_);
  slots_ += schedule_slots(s);
  if (slots_ > most_slots_) ready_.clear(), slots_ = schedule_slots(s);
  ready_.emplace(key, made);
  return made;
}

Estimate estimate(const Question& q, const sim::Setting& setting, ScheduleShelf& shelf, sim::GridWorkspace& workspace,
                  bool infeasible_too) {
  Estimate out;
  out.setting = setting;
  const auto ready = shelf.get(setting);
  const Target& t = q.target;
  sim::MemoryEstimate memory = sim::estimate_memory(
      setting, ready->schedule, t.kernels,
      {.capacity_bytes = t.capacity_bytes, .host_capacity_bytes = t.host_capacity_bytes, .items = false});
  out.feasible = memory.feasible;
  out.reasons = std::move(memory.reasons);
  out.needed_bytes = memory.needed_bytes();
  out.headroom_bytes = t.capacity_bytes - out.needed_bytes;
  if (!out.feasible && !infeasible_too) return out;
  out.time = sim::StepModel(setting, ready->grid, t.kernels).evaluate(*t.rates, workspace);
  return out;
}

sim::MemoryEstimate memory_of(const Question& q, const sim::Setting& setting, ScheduleShelf& shelf) {
  const Target& t = q.target;
  return sim::estimate_memory(
      setting, shelf.get(setting)->schedule, t.kernels,
      {.capacity_bytes = t.capacity_bytes, .host_capacity_bytes = t.host_capacity_bytes, .items = true, .slots = true});
}

}  // namespace trireme::search
