// What a search found, told: text, JSON, CSV, a page and a trace.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "model/flops.h"
#include "plan/layout_keys.h"
#include "search/layouts/pareto.h"
#include "search/layouts/simulated.h"
#include "trireme/question_choice.h"

namespace trireme::apps {

// A search's result with the best layout (or the one that comes closest to fitting) looked at closely.
struct LayoutAnswer {
  ChosenQuestion chosen;
  search::SearchResult result;
  std::optional<search::Estimate> layout;  // none where rules forbid every layout
  sim::MemoryEstimate memory;
  plan::Schedule schedule;
  std::optional<sim::SimulatedLayout> simulated;  // the layout's actions; none where they are too many
  std::vector<std::vector<plan::Span>> spans;      // by stage, aligned with the schedule's rows
  std::vector<sim::EstimateTerm> terms;
  model::FlopConvention convention = model::megatron_flops;
  double flops_per_token = 0;
  std::optional<search::ParetoFronts> fronts;
  std::vector<plan::RefusedKey> refused;  // what trireme train can't execute of the layout

  bool feasible() const { return layout && layout->feasible; }
  double mfu(const search::Estimate& e) const;  // of model FLOPs by `convention`, over the peak of the compute format
};

LayoutAnswer make_answer(const ChosenQuestion& chosen, const search::SearchResult& result);

std::string answer_text(const LayoutAnswer& answer, bool explain);
nlohmann::json answer_json(const LayoutAnswer& answer, bool explain);  // the keys of docs/search.md
nlohmann::json layout_json(const sim::Setting& setting);
std::string layout_line(
    const sim::Setting& setting);  // "pp 8 x 2, tp 1, ep 64, dp 256, micro-batch 1, dualpipe_v, ..."

// Every layout that was estimated in full, one a line.
std::string answer_csv(const search::SearchResult& result);
std::string answer_trace(const LayoutAnswer& answer);
std::string answer_html(const LayoutAnswer& answer);

}  // namespace trireme::apps
