#include "report/run_report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "plan/costs_file.h"
#include "plan/file_checks.h"
#include "report/action_kinds.h"

namespace trireme::report {

namespace {

// Sums over actions into rows that appear in the order of their first action.
class KindRows {
 public:
  KindRow& row(const std::string& kind, plan::Lane lane) {
    const auto [at, fresh] = index_.try_emplace(kind, rows.size());
    if (fresh) rows.push_back({.kind = kind, .lane = lane});
    return rows[at->second];
  }
  std::vector<KindRow> rows;

 private:
  std::map<std::string, std::size_t> index_;
};

// Likewise for phases.
class PhaseRows {
 public:
  void add(const plan::StagePlan& stage, const std::vector<plan::PhaseSpan>& phases, double Pair::* side,
           const std::vector<double>& lengths = {}) {
    for (std::size_t i = 0; i < phases.size(); ++i) {
      const plan::PhaseSpan& p = phases[i];
      const std::string kind = kind_of(stage.actions.at(static_cast<std::size_t>(p.action)), stage);
      const auto [at, fresh] = index_.try_emplace({kind, p.part, p.phase}, rows.size());
      if (fresh) rows.push_back({.kind = kind, .part = p.part, .phase = p.phase});
      PhaseRow& row = rows[at->second];
      row.seconds.*side += i < lengths.size() ? lengths[i] : p.end_s - p.start_s;
      if (side == &Pair::predicted) ++row.count;
    }
  }
  std::vector<PhaseRow> rows;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> index_;
};

double length(const plan::Span& s) { return s.end_s - s.start_s; }

plan::RankTimeline timeline_of(const plan::MeasuredRank& m) {
  return {.rank = m.rank, .spans = m.spans, .phases = m.phases, .step_s = m.step_s, .peak_memory_bytes = m.peak_memory_bytes};
}

}  // namespace

std::vector<plan::RankTimeline> RunReport::measured_timelines() const {
  std::vector<plan::RankTimeline> out;
  for (const plan::MeasuredRank& m : measured) {
    out.push_back(timeline_of(m));
    const auto move = [&](auto& spans) {
      for (auto& s : spans) {
        s.start_s += m.step_offset_s;
        s.end_s += m.step_offset_s;
      }
    };
    move(out.back().spans);
    move(out.back().phases);
  }
  return out;
}

RunReport make_run_report(const std::filesystem::path& folder) {
  plan::Plan plan = plan::read_plan(folder);
  plan::Prediction prediction = plan::read_prediction(folder);
  std::vector<plan::MeasuredRank> measured = plan::read_measured(folder);
  plan::check_fits(prediction, plan, (folder / "predicted.json").string());
  // No table is made of it; whoever reads it beside the report may trust it as much as the rest.
  if (const auto costs = folder / "costs.json"; std::filesystem::exists(costs)) plan::check_fits(plan::read_costs(folder), plan, costs.string());
  plan::check_fits(measured, plan, (folder / "measured").string());
  RunReport r = compare(std::move(plan), std::move(prediction), std::move(measured));
  r.metrics = read_metrics(folder / "metrics.jsonl");
  r.facts = run_facts(folder, r.plan, r.prediction);
  r.router = read_router_history(folder / "metrics.jsonl");
  return r;
}

RunReport compare(plan::Plan plan, plan::Prediction prediction, std::vector<plan::MeasuredRank> measured_ranks) {
  RunReport r{.plan = std::move(plan), .prediction = std::move(prediction), .measured = std::move(measured_ranks)};
  r.step_s.predicted = r.prediction.step_s;
  for (const plan::RankTimeline& t : r.prediction.ranks) {
    r.peak_bytes.predicted = std::max(r.peak_bytes.predicted, t.peak_memory_bytes);
    const auto stage = static_cast<std::size_t>(r.plan.mesh.pp_index(t.rank));
    const auto& copies = r.prediction.checkpoint_copy_bytes;
    const double copy = stage < copies.size() && r.plan.mesh.dp_index(t.rank) == 0 ? copies[stage] : 0;
    if (copy == 0) continue;
    r.checkpoint_peak_bytes.predicted = std::max(r.checkpoint_peak_bytes.predicted, t.peak_memory_bytes + copy);
    r.checkpoint_copy_bytes.predicted = std::max(r.checkpoint_copy_bytes.predicted, copy);
  }

  KindRows kinds, segments;
  PhaseRows phases;
  // Without measurements the tables still show the prediction of every rank.
  std::map<int, const plan::MeasuredRank*> of_rank;
  for (const plan::MeasuredRank& m : r.measured) of_rank[m.rank] = &m;
  for (const plan::RankTimeline& predicted : r.prediction.ranks) {
    const auto found = of_rank.find(predicted.rank);
    const plan::MeasuredRank* measured = found == of_rank.end() ? nullptr : found->second;
    if (!measured && !of_rank.empty()) continue;
    r.predicted_exposure.push_back(exposure(r.plan, predicted));
    if (measured) r.measured_exposure.push_back(exposure(r.plan, timeline_of(*measured)));
    const int s = r.plan.mesh.pp_index(predicted.rank);
    const plan::StagePlan& stage = r.plan.stages[s];
    RankRow row{.rank = predicted.rank, .stage = s};
    row.step_s = {r.prediction.step_s, measured ? measured->step_s : 0};
    row.peak_bytes = {predicted.peak_memory_bytes, measured ? measured->peak_memory_bytes : 0};
    for (std::size_t i = 0; i < stage.actions.size(); ++i) {
      const plan::Action& a = stage.actions[i];
      const double p = length(predicted.spans.at(i));
      const double m = !measured ? 0 : i < measured->action_s.size() ? measured->action_s[i] : length(measured->spans[i]);
      KindRow& kind = kinds.row(kind_of(a, stage), a.lane);
      ++kind.count;
      kind.seconds.predicted += p;
      kind.seconds.measured += m;
      if (a.lane != plan::Lane::compute) continue;
      row.compute_s.predicted += p;
      row.compute_s.measured += m;
      const bool outside = a.segment == plan::Segment::none;
      KindRow& segment = segments.row(outside ? name_of(a.kind) : model::name_of(a.segment), a.lane);
      ++segment.count;
      segment.seconds.predicted += p;
      segment.seconds.measured += m;
    }
    phases.add(stage, predicted.phases, &Pair::predicted);
    if (measured) phases.add(stage, measured->phases, &Pair::measured, measured->phase_s);
    row.idle_s.predicted = row.step_s.predicted - row.compute_s.predicted;
    if (measured) {
      row.idle_s.measured = row.step_s.measured - row.compute_s.measured;
      r.step_s.measured = std::max(r.step_s.measured, measured->step_s);
      r.peak_bytes.measured = std::max(r.peak_bytes.measured, measured->peak_memory_bytes);
      r.checkpoint_peak_bytes.measured = std::max(r.checkpoint_peak_bytes.measured, measured->checkpoint_peak_bytes);
      r.checkpoint_copy_bytes.measured = std::max(r.checkpoint_copy_bytes.measured, measured->checkpoint_copy_bytes);
    }
    r.ranks.push_back(row);
  }
  r.kinds = std::move(kinds.rows);
  r.segments = std::move(segments.rows);
  r.phases = std::move(phases.rows);
  return r;
}

}  // namespace trireme::report
