#include "report/router_history.h"

#include <algorithm>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_words.h"
#include "base/regular_file.h"
#include "report/text_table.h"

namespace trireme::report {
namespace {

constexpr std::size_t most_points = 400;

struct Line {
  int first_layer = 0;
  RouterPoint point;
  std::vector<std::vector<std::int64_t>> rows;
};

// Throws the JSON library's errors, and std::invalid_argument for lists that do not fit each other.
Line line_of(const nlohmann::json& j) {
  const nlohmann::json& load = j.at("router_load");
  Line out{.first_layer = load.at("first_layer").get<int>()};
  out.point.step = j.at("step").get<std::int64_t>();
  load.at("max_over_mean").get_to(out.point.max_over_mean);
  load.at("min_over_mean").get_to(out.point.min_over_mean);
  load.at("cv").get_to(out.point.cv);
  if (load.contains("rows")) load["rows"].get_to(out.rows);
  const std::size_t layers = out.point.max_over_mean.size();
  if (layers == 0 || out.point.min_over_mean.size() != layers || out.point.cv.size() != layers ||
      (!out.rows.empty() && out.rows.size() != layers))
    throw std::invalid_argument("its lists differ in length");
  for (const auto& of_layer : out.rows)
    if (of_layer.size() != out.rows.front().size()) throw std::invalid_argument("its layers differ in the number of experts");
  return out;
}

// Rows over their layer's mean.
double over_mean(const std::vector<std::int64_t>& rows, std::int64_t value) {
  double sum = 0;
  for (const std::int64_t n : rows) sum += static_cast<double>(n);
  return sum > 0 ? static_cast<double>(value) * static_cast<double>(rows.size()) / sum : 0;
}

}  // namespace

RouterHistory read_router_history(const std::filesystem::path& metrics_file) {
  RouterHistory out;
  std::ifstream in = open_regular(metrics_file);
  std::map<std::int64_t, Line> by_step;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
    if (!j.is_object() || !j.contains("router_load")) continue;
    try {
      Line line = line_of(j);
      if (!by_step.empty() && by_step.begin()->second.point.cv.size() != line.point.cv.size())
        throw std::invalid_argument("it has another number of layers than the lines before");
      by_step[line.point.step] = std::move(line);
    } catch (const std::exception& error) {
      const auto* of_json = dynamic_cast<const nlohmann::json::exception*>(&error);
      std::string why = of_json ? fmt::format("not what a run writes: {}", json_words(*of_json)) : error.what();
      throw ConfigError({.file = fmt::format("{}:{}", metrics_file.string(), number), .key = "router_load", .allowed = std::move(why)});
    }
  }
  for (auto& [step, line] : by_step) {
    out.first_layer = line.first_layer;
    if (!line.rows.empty()) out.rows_step = step, out.rows = std::move(line.rows);
    out.points.push_back(std::move(line.point));
  }
  return out;
}

std::string router_text(const RouterHistory& history) {
  if (history.points.empty()) return {};
  const RouterPoint &first = history.points.front(), &last = history.points.back();
  TextTable table({"layer", fmt::format("busiest, step {}", first.step), fmt::format("step {}", last.step), "most", "at step",
                   "idlest", "variation", "experts without a row"});
  for (std::size_t i = 0; i < last.cv.size(); ++i) {
    const RouterPoint& most = *std::max_element(history.points.begin(), history.points.end(), [&](const auto& a, const auto& b) {
      return a.max_over_mean[i] < b.max_over_mean[i];
    });
    const std::string idle = history.rows.empty() ? "-" : fmt::format("{} of {}", std::count(history.rows[i].begin(), history.rows[i].end(), 0),
                                                                      history.rows[i].size());
    table.add({fmt::format("{}", history.first_layer + static_cast<int>(i)), fmt::format("{:.2f}", first.max_over_mean[i]),
               fmt::format("{:.2f}", last.max_over_mean[i]), fmt::format("{:.2f}", most.max_over_mean[i]),
               fmt::format("{}", most.step), fmt::format("{:.2f}", last.min_over_mean[i]), fmt::format("{:.2f}", last.cv[i]), idle});
  }
  return "\nRows of an expert over its layer's mean\n" + table.text() +
         (history.rows.empty() ? "" : fmt::format("  experts without a row: in step {}\n", history.rows_step));
}

nlohmann::json router_json(const RouterHistory& history) {
  if (history.points.empty()) return nullptr;
  nlohmann::json steps = nlohmann::json::array(), most = nlohmann::json::array(), least = nlohmann::json::array(),
                 cv = nlohmann::json::array(), load = nlohmann::json::array();
  const std::size_t n = history.points.size(), stride = (n + most_points - 1) / most_points;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % stride != 0 && i + 1 != n) continue;
    steps.push_back(history.points[i].step);
    most.push_back(history.points[i].max_over_mean);
    least.push_back(history.points[i].min_over_mean);
    cv.push_back(history.points[i].cv);
  }
  for (const auto& rows : history.rows) {
    nlohmann::json of_layer = nlohmann::json::array();
    for (const std::int64_t value : rows) of_layer.push_back(over_mean(rows, value));
    load.push_back(std::move(of_layer));
  }
  return {{"first_layer", history.first_layer}, {"steps", steps}, {"max_over_mean", most}, {"min_over_mean", least},
          {"cv", cv}, {"rows_step", history.rows_step}, {"rows_over_mean", load}};
}

}  // namespace trireme::report
