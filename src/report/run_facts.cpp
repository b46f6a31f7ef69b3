#include "report/run_facts.h"

#include <chrono>
#include <ctime>
#include <fstream>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "model/parameters.h"
#include "plan/run_spec.h"
#include "report/text_table.h"

namespace trireme::report {

namespace fs = std::filesystem;

namespace {

std::string date_text(std::time_t time) { return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(time)); }

// When a file was written; empty where nobody can tell.
std::string written(const fs::path& file) {
  std::error_code failed;
  const auto time = fs::last_write_time(file, failed);
  if (failed) return {};
  return date_text(std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(std::chrono::file_clock::to_sys(time))));
}

struct RunInfo {
  std::string run, started, version;
};

std::optional<RunInfo> read_run_info(const fs::path& file) {
  std::ifstream in = open_regular(file);
  if (!in) return {};
  const auto fail = [&](const char* key, const char* allowed) {
    throw ConfigError({.file = file.string(), .key = key, .allowed = allowed});
  };
  const auto j = nlohmann::json::parse(in, nullptr, false);
  if (!j.is_object()) fail("", "not what a run writes: expected a JSON object");
  const auto text = [&](const nlohmann::json& of, const char* key) {
    const auto found = of.find(key);
    if (found == of.end()) return std::string();
    if (!found->is_string()) fail(key, "expected a string");
    return found->get<std::string>();
  };
  RunInfo out{.run = text(j, "run")};
  const auto sessions = j.find("sessions");
  if (sessions == j.end()) return out;
  if (!sessions->is_array()) fail("sessions", "expected an array of objects");
  if (sessions->empty()) return out;
  if (!sessions->back().is_object()) fail("sessions", "expected an array of objects");
  out.started = text(sessions->back(), "started"), out.version = text(sessions->back(), "version");
  return out;
}

}  // namespace

std::vector<Fact> plan_facts(const model::ModelSpec* model, const plan::Plan& plan, const plan::Prediction& prediction, std::string date) {
  std::vector<Fact> out;
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) out.push_back({what, printable(value)});
  };
  if (model) {
    const auto counts = model::count_parameters(*model);
    add("model", fmt::format("{}, {} layers", model->name, model->num_layers));
    add("parameters", fmt::format("{}, {} active a token", show_count(static_cast<double>(counts.total)),
                                  show_count(static_cast<double>(counts.active))));
  }
  add("layout", fmt::format("{} ({}) = {} rank{}, {}, {} micro-batches, all-to-all {}", dense_degrees(plan.mesh), expert_degrees(plan.mesh),
                            plan.mesh.world(), plan.mesh.world() == 1 ? "" : "s", plan.schedule.name, plan.num_micro_batches, plan.all_to_all));
  add("date", std::move(date));
  add("platform", fmt::format("{}, {}", prediction.platform, prediction.platform_measured ? "measured" : "guessed, or not all measured"));
  return out;
}

std::vector<Fact> run_facts(const fs::path& folder, const plan::Plan& plan, const plan::Prediction& prediction) {
  std::optional<plan::RunSpec> run;
  if (std::error_code ignored; fs::exists(folder / "run.toml", ignored)) run = plan::load_run(folder / "run.toml");
  const auto info = read_run_info(folder / "run_info.json");
  const std::string date = info && !info->started.empty() ? info->started : written(folder / "plan.json");
  std::vector<Fact> out = plan_facts(run ? &run->model : nullptr, plan, prediction, date);
  if (run) out.insert(out.begin(), {"name", printable(run->name)});
  if (info && !info->run.empty()) out.push_back({"run", printable(info->run)});
  if (info && !info->version.empty()) out.push_back({"program", printable(info->version)});
  return out;
}

std::string facts_text(const std::vector<Fact>& facts) {
  std::string out;
  for (const Fact& f : facts) out += fmt::format("{:<11} {}\n", f.what, f.value);
  return out;
}

std::string now_text() { return date_text(std::time(nullptr)); }

}  // namespace trireme::report
