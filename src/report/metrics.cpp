#include "report/metrics.h"

#include <algorithm>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trireme::report {

Metrics read_metrics(const std::filesystem::path& file) {
  Metrics out;
  std::ifstream in(file);
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
    const auto take = [&](const char* key, std::map<double, double>& into) {
      if (j.contains("step") && j.contains(key) && j["step"].is_number() && j[key].is_number())
        into[j["step"].get<double>()] = j[key].get<double>();
    };
    take("loss", loss);
    take("eval_loss", valid);
    take("tokens_per_s", rate);
    take("measured_step_s", step_s);
    if (j.contains("bigram_loss") && j["bigram_loss"].is_number()) out.bigram_loss = j["bigram_loss"].get<double>();
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
