#include "plan/pipeline/schedule_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/read_file.h"

namespace trireme::plan {

namespace {

// What a heading can hold.
std::string name_of(const std::filesystem::path& path) {
  std::string name = path.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c == ',' || c == 127; }, '_');
  return name.empty() ? "schedule" : name;
}

}  // namespace

Schedule load_schedule(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  ScheduleText read;
  try {
    read = path.extension() == ".csv" ? parse_schedule_csv(text, name_of(path)) : parse_schedule_text(text);
  } catch (const ConfigError& e) {
    ConfigError::Detail detail = e.detail();
    detail.file = path.string();
    throw ConfigError(std::move(detail));
  }
  std::vector<ScheduleProblem> wrong = located_problems(read.schedule);
  if (wrong.empty()) wrong = crossed_messages(read.schedule);
  if (wrong.empty()) return std::move(read.schedule);
  const ScheduleProblem& first = wrong.front();
  const std::string more = wrong.size() > 1 ? fmt::format(" (and {} more)", wrong.size() - 1) : "";
  throw ConfigError({.file = path.string(),
                     .key = first.stage < 0 ? "schedule" : fmt::format("schedule line {}", read.lines.at(first.stage)),
                     .allowed = first.text + more});
}

}  // namespace trireme::plan
