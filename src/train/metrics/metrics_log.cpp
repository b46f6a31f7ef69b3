#include "train/metrics/metrics_log.h"

#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/json_words.h"
#include "base/regular_file.h"

namespace trireme::train {
namespace {

// The lines of steps up to `last_step`, newlines included. A step that a run took twice keeps its last line.
std::string lines_up_to(const std::filesystem::path& path, std::int64_t last_step) {
  std::ifstream in = open_regular(path);
  std::string kept, line;
  while (std::getline(in, line) && !in.eof()) {  // at the end of the file without a newline: cut short
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<std::int64_t>() <= last_step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& path, std::int64_t last_step) {
  try {
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
    write_file_atomically(path, lines_up_to(path, last_step));
    file_ = std::make_unique<AppendFile>(path);
  } catch (const std::system_error& e) {
    if (!is_bad_path(e.code())) throw;
    throw ConfigError({.file = path.string(), .allowed = fmt::format("cannot be written: {}", e.what())});
  }
}

void MetricsLog::write(const StepMetrics& metrics) {
  try {
    file_->append(to_json(metrics).dump() + "\n");
  } catch (const std::system_error& e) {
    throw RuntimeFailure({.operation = "metrics", .reason = e.what()});
  }
}

std::vector<StepMetrics> read_metrics(const std::filesystem::path& path) {
  std::ifstream in = open_regular(path);
  if (!in) throw ConfigError({.file = path.string(), .allowed = "no such file, or it cannot be read"});
  std::vector<StepMetrics> out;
  std::string line;
  for (int number = 1; std::getline(in, line) && !in.eof(); ++number) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) {
      throw ConfigError(
          {.file = path.string(), .key = fmt::format("line {}", number), .allowed = "expected a JSON object"});
    }
    try {
      out.push_back(step_metrics_from_json(json));
    } catch (const nlohmann::json::exception& e) {
      throw ConfigError({.file = path.string(), .key = fmt::format("line {}", number), .allowed = json_words(e)});
    }
  }
  return out;
}

}  // namespace trireme::train
