#include "search/validation/calibration_report.h"

#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "search/validation/statistics.h"

namespace trireme::search {

namespace {

struct Errors {
  std::vector<double> fitted, model_out, row_out;
};

void add(Errors& e, const Calibration& c, const PreparedRow& row, std::size_t i) {
  const auto error = [&](double predicted) { return std::abs(predicted / row.row.measured - 1); };
  e.fitted.push_back(error(c.fitted[i]));
  if (c.model_left_out[i] > 0) e.model_out.push_back(error(c.model_left_out[i]));
  if (c.row_left_out[i] > 0) e.row_out.push_back(error(c.row_left_out[i]));
}

nlohmann::json show(const std::string& name, const Errors& e) {
  const auto of = [](const std::vector<double>& v) {
    return v.empty() ? nlohmann::json(nullptr)
                     : nlohmann::json{{"n", v.size()}, {"mape", mean(v)}, {"median_ape", median(v)}};
  };
  return {
      {"name", name}, {"fitted", of(e.fitted)}, {"model_left_out", of(e.model_out)}, {"row_left_out", of(e.row_out)}};
}

// Whether other models were measured on a row's stack and on its device: what a fit without its model can know of them.
bool known_without_its_model(const Calibration& c, const std::vector<PreparedRow>& rows, std::size_t i) {
  bool stack = false, device = false;
  for (std::size_t j = 0; j < rows.size(); ++j) {
    if (c.fitted[j] <= 0 || rows[j].resolved.setting.model.name == rows[i].resolved.setting.model.name) continue;
    stack = stack || rows[j].resolved.facts.name == rows[i].resolved.facts.name;
    device = device || rows[j].device() == rows[i].device();
  }
  return stack && device;
}

std::map<std::string, std::map<std::string, Errors>> tables(const Calibration& c,
                                                            const std::vector<PreparedRow>& rows) {
  std::map<std::string, std::map<std::string, Errors>> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (c.fitted[i] <= 0) continue;
    const PreparedRow& r = rows[i];
    add(out["stack"][r.resolved.facts.name.empty() ? "(unknown)" : r.resolved.facts.name], c, r, i);
    add(out["device"][r.device()], c, r, i);
    add(out["model"][r.resolved.setting.model.name], c, r, i);
    const char* kind = r.resolved.setting.model.moe.num_experts > 0 ? "mixture of experts" : "dense";
    add(out["kind"][kind], c, r, i);
    if (known_without_its_model(c, rows, i)) add(out["kind, stack and device known by others"][kind], c, r, i);
    add(out["all"]["all"], c, r, i);
  }
  return out;
}

}  // namespace

nlohmann::json to_json(const Calibration& c, const std::vector<PreparedRow>& rows) {
  nlohmann::json j;
  for (const auto& [by, groups] : tables(c, rows)) {
    j[by] = nlohmann::json::array();
    for (const auto& [name, errors] : groups) j[by].push_back(show(name, errors));
  }
  j["rows"] = nlohmann::json::array();
  const auto value = [](double v) { return v > 0 ? nlohmann::json(v) : nlohmann::json(nullptr); };
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (c.fitted[i] > 0)
      j["rows"].push_back({{"id", rows[i].row.id},
                           {"unit", rows[i].row.unit},
                           {"measured", rows[i].row.measured},
                           {"fitted", c.fitted[i]},
                           {"model_left_out", value(c.model_left_out[i])},
                           {"row_left_out", value(c.row_left_out[i])},
                           {"model", rows[i].resolved.setting.model.name},
                           {"stack", rows[i].resolved.facts.name},
                           {"device", rows[i].device()}});
  return j;
}

std::string to_text(const Calibration& c, const std::vector<PreparedRow>& rows) {
  const auto cell = [](const std::vector<double>& v) {
    return v.empty() ? std::string("-") : fmt::format("{:.1f} / {:.1f} %", 100 * mean(v), 100 * median(v));
  };
  std::string out = "Errors as mean / median of |predicted / measured - 1|\n";
  for (const auto& [by, groups] : tables(c, rows)) {
    out += fmt::format("\n{:<40} {:>5} {:>16} {:>16} {:>16}\n", by, "rows", "fitted", "model left out", "row left out");
    for (const auto& [name, e] : groups)
      out += fmt::format("{:<40} {:>5} {:>16} {:>16} {:>16}\n", name, e.fitted.size(), cell(e.fitted),
                         cell(e.model_out), cell(e.row_out));
  }
  return out;
}

}  // namespace trireme::search
