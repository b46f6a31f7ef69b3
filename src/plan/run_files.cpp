#include "plan/run_files.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/json_words.h"
#include "base/regular_file.h"
#include "plan/costs_file.h"
#include "plan/file_checks.h"
#include "plan/file_shape.h"

namespace trireme::plan {

namespace fs = std::filesystem;

namespace {

double median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle] + *std::max_element(values.begin(), values.begin() + middle)) / 2;
}

template <class T>
T read(const fs::path& path, const nlohmann::json& sample) {
  const std::string name = path.string();
  std::ifstream in = open_regular(path);
  if (!in) throw ConfigError({.file = name, .allowed = "no such file: is this the folder of a run?"});
  try {
    const auto j = nlohmann::json::parse(in);
    check_shape(j, sample, name);
    T value = j.get<T>();
    check_words(j, value, name);
    check(value, name);
    return value;
  } catch (const nlohmann::json::exception& e) {
    throw ConfigError({.file = name, .allowed = fmt::format("not what a run writes: {}", json_words(e))});
  } catch (const ConfigError& e) {
    if (e.detail().file == name) throw;
    ConfigError::Detail detail = e.detail();  // of the schedule in it
    detail.file = name;
    throw ConfigError(std::move(detail));
  }
}

template <class T>
void write(const fs::path& path, const T& value) {
  write_file_atomically(path, nlohmann::json(value).dump() + "\n");
}

}  // namespace

void MeasuredSteps::add(std::int64_t step, double step_s, const std::vector<Span>& spans,
                        const std::vector<double>& expert_rows, const std::vector<PhaseSpan>& phases) {
  if (static_cast<int>(steps_.size()) < keep_) {
    steps_.push_back({step, step_s, spans, expert_rows, phases});
    return;
  }
  steps_[next_] = {step, step_s, spans, expert_rows, phases};
  next_ = (next_ + 1) % steps_.size();
}

MeasuredRank MeasuredSteps::summary(double peak_memory_bytes) const {
  TRIREME_CHECK(!steps_.empty(), "no step was measured");
  MeasuredRank out{.rank = rank_, .num_steps = static_cast<std::int64_t>(steps_.size()),
                   .peak_memory_bytes = peak_memory_bytes};
  std::vector<double> lengths;
  out.first_step = steps_.front().number;
  for (const Step& s : steps_) {
    lengths.push_back(s.step_s);
    out.first_step = std::min(out.first_step, s.number);
  }
  out.step_s = median(lengths);
  // Steps by how near their length is to the median: the nearest one's spans stand for all, and the nearer half's means
  // are the actions' lengths (of ranks that share cores a median would leave out the waits that some steps have).
  std::vector<const Step*> by_distance;
  for (const Step& s : steps_) by_distance.push_back(&s);
  std::stable_sort(by_distance.begin(), by_distance.end(), [&](const Step* a, const Step* b) {
    return std::abs(a->step_s - out.step_s) < std::abs(b->step_s - out.step_s);
  });
  by_distance.resize((by_distance.size() + 1) / 2);
  out.spans = by_distance.front()->spans;
  for (std::size_t i = 0; i < out.spans.size(); ++i) {
    double sum = 0;
    int count = 0;
    for (const Step* s : by_distance) {
      if (i >= s->spans.size()) continue;
      sum += s->spans[i].end_s - s->spans[i].start_s;
      ++count;
    }
    out.action_s.push_back(sum / count);
  }
  out.phases = by_distance.front()->phases;
  for (std::size_t i = 0; i < out.phases.size(); ++i) {
    double sum = 0;
    int count = 0;
    for (const Step* s : by_distance) {
      if (s->phases.size() != out.phases.size()) continue;
      sum += s->phases[i].end_s - s->phases[i].start_s;
      ++count;
    }
    out.phase_s.push_back(sum / count);
  }
  for (const Step& s : steps_) {
    if (s.expert_rows.empty()) continue;
    out.expert_rows.resize(s.expert_rows.size());
    for (std::size_t i = 0; i < s.expert_rows.size(); ++i) out.expert_rows[i] += s.expert_rows[i] / out.num_steps;
  }
  return out;
}

void write_plan(const fs::path& folder, const Plan& plan) { write(folder / "plan.json", plan); }
void write_costs(const fs::path& folder, const Costs& costs) { write(folder / "costs.json", costs); }
void write_prediction(const fs::path& folder, const Prediction& p) { write(folder / "predicted.json", p); }
void write_measured(const fs::path& folder, const MeasuredRank& measured) {
  fs::create_directories(folder / "measured");
  write(folder / "measured" / fmt::format("rank-{:05}.json", measured.rank), measured);
}

Plan read_plan(const fs::path& folder) { return read<Plan>(folder / "plan.json", sample_plan()); }
Costs read_costs(const fs::path& folder) { return read<Costs>(folder / "costs.json", sample_costs()); }
Prediction read_prediction(const fs::path& folder) { return read<Prediction>(folder / "predicted.json", sample_prediction()); }

std::vector<MeasuredRank> read_measured(const fs::path& folder) {
  std::vector<MeasuredRank> out;
  if (!fs::is_directory(folder / "measured")) return out;
  for (const auto& entry : fs::directory_iterator(folder / "measured"))
    if (entry.path().extension() == ".json") out.push_back(read<MeasuredRank>(entry.path(), sample_measured()));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

}  // namespace trireme::plan
