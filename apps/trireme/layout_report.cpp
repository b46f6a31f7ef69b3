#include "trireme/layout_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "trireme/found_run.h"

namespace trireme::apps {

namespace {

std::string degree(const char* name, int value) {
  return value > 1 ? fmt::format(", {} {}", name, value) : "";
}

std::string where(const plan::LayoutSpec& l) {
  std::string out =
      l.sharding == plan::Sharding::none ? "states replicated" : fmt::format("{} sharded", plan::name_of(l.sharding));
  if (l.shard_degree > 0) out += fmt::format(" over {}", l.shard_degree);
  if (l.expert_shard_degree > 0) out += fmt::format(" (experts over {})", l.expert_shard_degree);
  return out;
}

using Spans = std::vector<std::vector<plan::Span>>;

Spans spans_of_slots(const sim::StepModel& step, const sim::CompiledGrid& grid, const ChosenQuestion& chosen) {
  sim::GridWorkspace workspace;
  step.evaluate(*chosen.question.target.rates, workspace, true);
  const std::vector<plan::Span>& all = workspace.result.spans;
  Spans out;
  for (int stage = 0; stage < grid.num_stages; ++stage)
    out.emplace_back(all.begin() + grid.row_begin[stage], all.begin() + grid.row_begin[stage + 1]);
  return out;
}

// A slot's is its compute action's; joined ones have the same, and no-ops none.
Spans spans_of_slots(const plan::Schedule& schedule, const sim::SimulatedLayout& layout) {
  Spans out;
  for (std::size_t stage = 0; stage < schedule.rows.size(); ++stage) {
    const auto& row = schedule.rows[stage];
    std::vector<plan::Span>& spans = out.emplace_back(row.size());
    std::size_t slot = 0;
    for (const plan::Action& a : layout.plan.stages[stage].actions) {
      if (a.lane != plan::Lane::compute || a.kind == plan::ActionKind::optimizer) continue;
      while (slot < row.size() && row[slot].kind == plan::SlotKind::no_op) ++slot;
      const plan::Span span = layout.result.spans[stage][a.id];
      for (int i = 0; i < (a.kind == plan::ActionKind::pair ? 2 : 1); ++i) spans.at(slot++) = span;
    }
  }
  return out;
}

}  // namespace

double LayoutAnswer::mfu(const search::Estimate& e) const {
  const double peak = chosen.question.target.peak_flops_per_s;
  return peak > 0 ? e.time.tokens_per_s_per_device * flops_per_token / peak : 0;
}

LayoutAnswer make_answer(const ChosenQuestion& chosen, const search::SearchResult& result) {
  LayoutAnswer a;
  a.chosen = chosen;
  a.result = result;
  a.flops_per_token =
      model::flops_per_token(chosen.question.base.model, chosen.question.base.batch.sequence_length, a.convention)
          .total();
  search::ScheduleShelf shelf;
  std::vector<search::Estimate> layouts = result.best;
  if (layouts.empty() && result.closest) layouts.push_back(*result.closest);
  search::Simulated simulated = search::simulate_best(chosen.question, layouts, shelf);
  if (simulated.best.empty()) return a;
  a.layout = simulated.best.front();
  a.simulated = std::move(simulated.of_first);
  if (!result.best.empty()) a.result.best = std::move(simulated.best);
  const sim::Setting& s = a.layout->setting;
  a.refused = refused_by_train(s);
  const auto ready = shelf.get(s);
  a.schedule = ready->schedule;
  a.memory = search::memory_of(chosen.question, s, shelf);
  const sim::StepModel step(s, ready->grid, chosen.question.target.kernels);
  a.spans = a.simulated ? spans_of_slots(a.schedule, *a.simulated) : spans_of_slots(step, *ready->grid, chosen);
  a.terms = step.explain(*chosen.question.target.rates);
  return a;
}

std::string layout_line(const sim::Setting& s) {
  const plan::LayoutSpec& l = s.layout;
  std::string out =
      fmt::format("pp {}{}{}{}{}{}, dp {}, micro-batch {}", l.pp,
                  l.virtual_stages > 1 ? fmt::format(" x {} chunks", l.virtual_stages) : "", degree("tp", l.tp),
                  degree("cp", l.cp), degree("ep", l.ep), degree("etp", l.etp), l.dp, s.batch.micro_batch);
  if (l.pp > 1 || l.schedule != "1f1b") out += ", " + l.schedule;
  out += ", " + where(l);
  if (!l.recompute.empty()) {
    out += fmt::format(", recompute {}", fmt::join(plan::names_of(l.recompute), "+"));
    if (l.recompute_layers > 0) out += fmt::format(" of {} layers a piece", l.recompute_layers);
  }
  if (!l.swap.empty()) out += fmt::format(", swap {}", fmt::join(plan::names_of(l.swap), "+"));
  if (l.ep > 1) out += fmt::format(", {} all-to-all{}", l.all_to_all, l.overlap.experts ? " overlapped" : "");
  return out;
}

nlohmann::json layout_json(const sim::Setting& s) {
  nlohmann::json out = plan::to_json(s.layout);
  out["micro_batch"] = s.batch.micro_batch;
  out["num_micro_batches"] = s.batch.num_micro_batches(std::max(1, s.layout.dp));
  return out;
}

}  // namespace trireme::apps
