#include "search/validation/validation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "base/errors.h"
#include "search/validation/statistics.h"

namespace trireme::search {

namespace {

ErrorSummary summarise(const std::vector<const RowResult*>& rows) {
  std::vector<double> errors, baseline;
  for (const RowResult* r : rows) {
    errors.push_back(std::abs(r->error()));
    if (r->baseline > 0) baseline.push_back(std::abs(r->baseline / r->measured - 1));
  }
  return {.n = static_cast<int>(rows.size()),
          .mape = mean(errors),
          .median_ape = median(errors),
          .baseline_mape = mean(baseline)};
}

bool slower_is_higher(const PreparedRow& p) {
  return p.row.quantity == Quantity::step_s;
}

// Constant utilisation: for each row the median of the others of its device, stack and format (its own where alone).
void add_baseline(const std::vector<PreparedRow>& rows, std::vector<RowResult>& results) {
  std::map<std::string, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (results[i].compared() && rows[i].is_time())
      alike[fmt::format("{} {} {}", results[i].device, results[i].stack,
                        model::name_of(rows[i].resolved.setting.precision.compute))]
          .push_back(i);
  for (const auto& [key, members] : alike)
    for (std::size_t i : members) {
      std::vector<double> others;
      for (std::size_t j : members)
        if (members.size() == 1 || j != i) others.push_back(utilisation_of(rows[j]));
      results[i].baseline = predict_by_utilisation(rows[i], median(others));
    }
}

std::vector<GroupResult> grouped(const std::vector<RowResult>& rows,
                                 const std::function<std::string(const RowResult&)>& name) {
  std::map<std::string, std::vector<const RowResult*>> groups;
  for (const RowResult& r : rows)
    if (r.compared() && r.kind == "time") groups[name(r)].push_back(&r);
  std::vector<GroupResult> out;
  for (const auto& [key, members] : groups) out.push_back({.name = key, .errors = summarise(members)});
  return out;
}

std::vector<GroupResult> competing(const std::vector<PreparedRow>& rows, const std::vector<RowResult>& results) {
  std::map<std::string, std::vector<std::size_t>> groups;
  std::vector<std::string> order;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowResult& r = results[i];
    if (!r.compared() || !rows[i].is_time()) continue;
    const Row& row = rows[i].row;
    const std::string name =
        fmt::format("{} | {} | {} x {} | {} | batch {} x {} | {} | {}", r.stack, r.model, r.devices, r.device,
                    row.precision, *row.global_batch, *row.sequence, r.unit, row.source);
    if (!groups.count(name)) order.push_back(name);
    groups[name].push_back(i);
  }
  std::vector<GroupResult> out;
  for (const std::string& name : order) {
    const auto& members = groups[name];
    if (members.size() < 2) continue;
    std::vector<const RowResult*> of;
    std::vector<double> predicted, measured;
    for (std::size_t i : members) {
      of.push_back(&results[i]);
      const double sign = slower_is_higher(rows[i]) ? -1 : 1;
      predicted.push_back(sign * results[i].predicted), measured.push_back(sign * results[i].measured);
    }
    GroupResult& g = out.emplace_back(GroupResult{.name = name, .errors = summarise(of)});
    if (members.size() >= 3) g.spearman = spearman(predicted, measured);
    const auto first = std::max_element(predicted.begin(), predicted.end()) - predicted.begin();
    const double best = *std::max_element(measured.begin(), measured.end()), chosen = measured[first];
    g.top1_regret = slower_is_higher(rows[members[0]]) ? chosen / best - 1 : 1 - chosen / best;
  }
  return out;
}

}  // namespace

ValidationResult validate(const std::vector<PreparedRow>& rows, const platform::StackProfile& profile) {
  ValidationResult out;
  sim::GridWorkspace workspace;
  for (const PreparedRow& p : rows) {
    RowResult& r = out.rows.emplace_back();
    r.id = p.row.id, r.unit = p.row.unit, r.measured = p.row.measured, r.model = p.row.model;
    r.skipped = p.resolved.skipped, r.assumptions = p.resolved.assumptions, r.stack = p.resolved.facts.name;
    r.kind = p.is_time() ? "time" : "memory";
    r.devices = p.row.devices.value_or(0);
    if (!r.skipped.empty()) continue;
    r.device = p.device();
    bool device = false, stack = false;
    try {
      r.predicted = predict(p, profile.device(p.device(), &device), profile.stack(r.stack, &stack), workspace);
    } catch (const ConfigError& e) {
      r.skipped = e.what();  // of a memory row, whose schedule is made here
      continue;
    }
    r.calibrated = device && stack;
  }
  add_baseline(rows, out.rows);
  out.groups = competing(rows, out.rows);
  out.by_stack = grouped(out.rows, [](const RowResult& r) { return r.stack.empty() ? "(unknown stack)" : r.stack; });
  out.by_model = grouped(out.rows, [](const RowResult& r) { return r.model; });
  out.by_device = grouped(out.rows, [](const RowResult& r) { return r.device; });
  std::vector<const RowResult*> all, time, memory, firm;
  for (const RowResult& r : out.rows) {
    if (!r.compared()) continue;
    all.push_back(&r);
    (r.kind == "time" ? time : memory).push_back(&r);
    if (r.assumptions.empty()) firm.push_back(&r);
  }
  out.all = summarise(all), out.time = summarise(time), out.memory = summarise(memory),
  out.without_assumptions = summarise(firm);
  return out;
}

}  // namespace trireme::search
