#include "plan/schedule_keys.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "plan/pipeline/generators.h"

namespace trireme::plan {

using nlohmann::json;

namespace {

constexpr int most_chunks = 1 << 20;

}  // namespace

LayoutKey schedule_key() {
  return {"schedule",
          fmt::format("order of passes on a stage: {}", fmt::join(schedule_names(), ", ")),
          [](ConfigTable& t, const std::string& key, const auto&, LayoutSpec& l) {
            l.schedule = t.string_or(key, l.schedule);
            const auto names = schedule_names();
            if (std::ranges::find(names, l.schedule) == names.end())
              t.fail(key, fmt::format("must be one of {}", fmt::join(names, ", ")));
          },
          [](const LayoutSpec& l) { return json(l.schedule); },
          [](const LayoutSpec& l) {
            const std::string why = l.schedule_file.path.empty() ? why_not_runnable(l.schedule) : "";
            return why.empty() ? "" : fmt::format("must be gpipe or 1f1b ({})", why);
          },
          false,  // gpipe is never faster than 1f1b, the default, and needs more memory
          true};
}

LayoutKey schedule_file_key() {
  return {"schedule_file",
          "a file with a schedule in place of a name's: the grid, or PyTorch's CSV of pipeline actions (.csv)",
          [](ConfigTable& t, const std::string& key, const auto&, LayoutSpec& l) {
            l.schedule_file = {.path = t.string_or(key, l.schedule_file.path)};
          },
          [](const LayoutSpec& l) { return json(l.schedule_file.path); },
          [](const LayoutSpec& l) {
            const std::string why = l.schedule_file.grid ? why_not_runnable(*l.schedule_file.grid) : "";
            return why.empty() ? ""
                               : fmt::format("must be a schedule of whole backwards on one chunk a stage ({})", why);
          },
          false,
          true};
}

LayoutKey virtual_stages_key() {
  return {"virtual_stages",
          "chunks of the model on a stage; 1: as the schedule has it by itself",
          [](ConfigTable& t, const std::string& key, const auto&, LayoutSpec& l) {
            l.virtual_stages = static_cast<int>(t.integer_or(key, l.virtual_stages, 1, most_chunks));
          },
          [](const LayoutSpec& l) { return json(l.virtual_stages); },
          [](const LayoutSpec& l) {
            if (l.schedule_file.grid || can_have_chunks(l.schedule, l.virtual_stages)) return std::string();
            return fmt::format("must be {} with the schedule {}", chunks_a_stage(l.schedule), l.schedule);
          },
          false};
}

}  // namespace trireme::plan
