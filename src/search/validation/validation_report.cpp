#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "search/validation/validation.h"

namespace trireme::search {

namespace {

using nlohmann::json;

json summary(const ErrorSummary& e) {
  return {{"n", e.n}, {"mape", e.mape}, {"median_ape", e.median_ape}, {"constant_mfu_mape", e.baseline_mape}};
}

json group(const GroupResult& g) {
  json j = summary(g.errors);
  j["name"] = g.name;
  j["spearman"] = g.spearman ? json(*g.spearman) : json(nullptr);
  j["top1_regret"] = g.top1_regret ? json(*g.top1_regret) : json(nullptr);
  return j;
}

json groups(const std::vector<GroupResult>& of) {
  json j = json::array();
  for (const GroupResult& g : of) j.push_back(group(g));
  return j;
}

std::string percent(double x) {
  return fmt::format("{:.1f} %", 100 * x);
}

std::string sums(const char* title, const std::vector<GroupResult>& of) {
  std::string out = fmt::format("\n{:<44} {:>5} {:>8} {:>8} {:>13}\n", title, "rows", "MAPE", "median", "constant MFU");
  for (const GroupResult& g : of)
    out += fmt::format("{:<44} {:>5} {:>8} {:>8} {:>13}\n", g.name, g.errors.n, percent(g.errors.mape),
                       percent(g.errors.median_ape), percent(g.errors.baseline_mape));
  return out;
}

}  // namespace

json to_json(const ValidationResult& v) {
  json rows = json::array();
  for (const RowResult& r : v.rows) {
    json j{{"id", r.id},
           {"unit", r.unit},
           {"model", r.model},
           {"device", r.device},
           {"stack", r.stack},
           {"kind", r.kind},
           {"assumptions", r.assumptions},
           {"calibrated", r.calibrated}};
    j["measured"] = r.measured > 0 ? json(r.measured) : json(nullptr);
    j["predicted"] = r.skipped.empty() ? json(r.predicted) : json(nullptr);
    j["skipped"] = r.skipped.empty() ? json(nullptr) : json(r.skipped);
    if (r.baseline > 0) j["constant_mfu"] = r.baseline;
    rows.push_back(std::move(j));
  }
  return {{"rows", rows},
          {"groups", groups(v.groups)},
          {"by_stack", groups(v.by_stack)},
          {"by_model", groups(v.by_model)},
          {"by_device", groups(v.by_device)},
          {"all", summary(v.all)},
          {"time", summary(v.time)},
          {"memory", summary(v.memory)},
          {"without_assumptions", summary(v.without_assumptions)}};
}

std::string to_text(const ValidationResult& v) {
  std::string out = fmt::format("{:<28} {:>12} {:>12} {:>8}  {}\n", "row", "predicted", "measured", "error", "unit");
  std::map<std::string, int> skipped;
  for (const RowResult& r : v.rows) {
    if (!r.skipped.empty()) {
      ++skipped[r.skipped];
      out += fmt::format("{:<28} {:>12} {:>12} {:>8}  {} (not predicted: {})\n", r.id, "-",
                         r.measured > 0 ? fmt::format("{:.6g}", r.measured) : "-", "-", r.unit, r.skipped);
      continue;
    }
    out += fmt::format("{:<28} {:>12.6g} {:>12} {:>8}  {}{}{}\n", r.id, r.predicted,
                       r.compared() ? fmt::format("{:.6g}", r.measured) : "-",
                       r.compared() ? fmt::format("{:.1f}%", 100 * r.error()) : "-", r.unit,
                       r.assumptions.empty() ? "" : fmt::format(" (assumed: {})", fmt::join(r.assumptions, ", ")),
                       r.calibrated || r.kind == "memory" ? "" : " (not calibrated)");
  }
  out += sums("stack", v.by_stack) + sums("device", v.by_device) + sums("model", v.by_model);
  if (!v.groups.empty()) {
    out += fmt::format("\n{:>5} {:>8} {:>8} {:>9} {:>8}  {}\n", "rows", "MAPE", "median", "Spearman", "regret",
                       "layouts that compete");
    for (const GroupResult& g : v.groups)
      out += fmt::format("{:>5} {:>8} {:>8} {:>9} {:>8}  {}\n", g.errors.n, percent(g.errors.mape),
                         percent(g.errors.median_ape), g.spearman ? fmt::format("{:.3f}", *g.spearman) : "-",
                         g.top1_regret ? percent(*g.top1_regret) : "-", g.name);
  }
  const auto line = [](const char* what, const ErrorSummary& e) {
    return e.n == 0
               ? std::string()
               : fmt::format("{}: {} rows, MAPE {}, median {}\n", what, e.n, percent(e.mape), percent(e.median_ape));
  };
  out += "\n" + line("time", v.time) + line("memory", v.memory) + line("without assumptions", v.without_assumptions);
  if (v.time.n > 0)
    out += fmt::format("a constant MFU for each device, stack and format: MAPE {}\n", percent(v.time.baseline_mape));
  for (const auto& [reason, count] : skipped) out += fmt::format("not predicted: {} ({})\n", count, reason);
  return out;
}

}  // namespace trireme::search
