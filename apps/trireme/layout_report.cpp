#include "trireme/layout_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

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
  if (!result.best.empty())
    a.layout = result.best[0];
  else
    a.layout = result.closest;
  if (!a.layout) return a;
  const sim::Setting& s = a.layout->setting;
  search::ScheduleShelf shelf;
  const auto ready = shelf.get(s);
  a.schedule = ready->schedule;
  a.memory = search::memory_of(chosen.question, s, shelf);
  const sim::StepModel step(s, ready->grid, chosen.question.target.kernels);
  sim::GridWorkspace workspace;
  step.evaluate(chosen.question.target.machine, workspace, true);
  const auto& begin = ready->grid->row_begin;
  for (int stage = 0; stage < s.layout.pp; ++stage)
    a.spans.emplace_back(workspace.result.spans.begin() + begin[stage],
                         workspace.result.spans.begin() + begin[stage + 1]);
  a.terms = step.explain(chosen.question.target.machine);
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
  const plan::LayoutSpec& l = s.layout;
  return {{"pp", l.pp},
          {"virtual_stages", l.virtual_stages},
          {"micro_batch_group", l.micro_batch_group},
          {"tp", l.tp},
          {"sequence_parallel", l.sequence_parallel},
          {"cp", l.cp},
          {"ep", l.ep},
          {"etp", l.etp},
          {"dp", l.dp},
          {"micro_batch", s.batch.micro_batch},
          {"num_micro_batches", s.batch.num_micro_batches(std::max(1, l.dp))},
          {"schedule", l.schedule},
          {"stage_layers", l.stage_layers},
          {"sharding", plan::name_of(l.sharding)},
          {"shard_degree", l.shard_degree},
          {"expert_shard_degree", l.expert_shard_degree},
          {"recompute", plan::names_of(l.recompute)},
          {"recompute_layers", l.recompute_layers},
          {"swap", plan::names_of(l.swap)},
          {"all_to_all", l.all_to_all},
          {"matrix_owners", l.matrix_owners},
          {"overlap",
           {{"gradients", l.overlap.gradients},
            {"parameters", l.overlap.parameters},
            {"tensor", l.overlap.tensor},
            {"experts", l.overlap.experts},
            {"pipeline", l.overlap.pipeline}}}};
}

}  // namespace trireme::apps
