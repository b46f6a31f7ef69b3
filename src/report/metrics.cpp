#include "report/metrics.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_text.h"
#include "base/regular_file.h"

namespace trireme::report {

namespace {

// One line's values. A number that was not finite is null in JSON: it is no point of a curve.
class Line {
 public:
  Line(const nlohmann::json& object, std::string place) : object_(object), place_(std::move(place)) {}

  std::optional<double> number(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end() || found->is_null()) return {};
    if (!found->is_number()) fail(key, *found, "expected a number");
    return found->get<double>();
  }
  double step() const {
    const auto found = object_.find("step");
    if (found == object_.end()) throw ConfigError({.file = place_, .key = "step", .allowed = "is missing: a line tells of a step"});
    if (!found->is_number_integer() || found->get<std::int64_t>() < 0) fail("step", *found, "expected a whole number of at least 0");
    return found->get<double>();
  }

 private:
  [[noreturn]] void fail(const char* key, const nlohmann::json& found, const char* allowed) const {
    throw ConfigError({.file = place_, .key = key, .value = json_text(found).substr(0, 60), .allowed = allowed});
  }
  const nlohmann::json& object_;
  std::string place_;
};

}  // namespace

Metrics read_metrics(const std::filesystem::path& file) {
  Metrics out;
  std::ifstream in = open_regular(file);
  if (!in) return out;
  std::map<double, double> loss, valid, rate, step_s;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (!j.is_object()) {
      if (in.eof()) break;  // the run was killed while it wrote this line
      throw ConfigError({.file = fmt::format("{}:{}", file.string(), number), .value = line.substr(0, 60),
                         .allowed = "one JSON object a line"});
    }
    const Line values(j, fmt::format("{}:{}", file.string(), number));
    const auto take = [&](const char* key, std::map<double, double>& into) {
      if (const auto value = values.number(key)) into[values.step()] = *value;
    };
    take("loss", loss);
    take("eval_loss", valid);
    take("tokens_per_s", rate);
    take("measured_step_s", step_s);
    out.bigram_loss = values.number("bigram_loss").value_or(out.bigram_loss);
  }
  out.loss.assign(loss.begin(), loss.end());
  out.valid_loss.assign(valid.begin(), valid.end());
  out.tokens_per_s.assign(rate.begin(), rate.end());
  out.step_s.assign(step_s.begin(), step_s.end());
  return out;
}

double median_of(const std::vector<std::pair<double, double>>& series) {
  if (series.empty()) return 0;
  std::vector<double> values;
  for (const auto& [step, value] : series) values.push_back(value);
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace trireme::report
