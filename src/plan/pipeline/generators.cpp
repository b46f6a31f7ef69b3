#include "plan/pipeline/generators.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/pipeline/dualpipe_v.h"
#include "plan/pipeline/gpipe.h"
#include "plan/pipeline/interleaved_1f1b.h"
#include "plan/pipeline/merged_1f1b.h"
#include "plan/pipeline/one_f_one_b.h"
#include "plan/pipeline/zero_bubble_h1.h"
#include "plan/pipeline/zero_bubble_v.h"

namespace trireme::plan {

namespace {

struct Entry {
  const char* name;
  int chunks;       // a stage, where nothing is said
  bool any_chunks;  // another number can be asked for
  PieceMap map;
  Schedule (*make)(const ScheduleOptions&);
  const char* not_runnable;  // "": the runtime executes it
};

const char* const several_chunks = "the runtime holds one chunk of the model on a stage";
const char* const split = "the runtime computes input and weight gradients together";
const char* const joined = "the runtime doesn't overlap a forward with a backward";

// The one list of names.
const std::array<Entry, 7> entries{{
    {"gpipe", 1, false, PieceMap::round,
     [](const ScheduleOptions& o) { return gpipe(o.num_stages, o.num_micro_batches); }, ""},
    {"1f1b", 1, false, PieceMap::round,
     [](const ScheduleOptions& o) { return one_f_one_b(o.num_stages, o.num_micro_batches); }, ""},
    {"interleaved_1f1b", 2, true, PieceMap::round, interleaved_1f1b, several_chunks},
    {"merged_1f1b", 1, true, PieceMap::round, merged_1f1b, joined},
    {"zero_bubble_h1", 1, false, PieceMap::round, zero_bubble_h1, split},
    {"zero_bubble_v", 2, false, PieceMap::v, zero_bubble_v, split},
    {"dualpipe_v", 2, false, PieceMap::v,
     [](const ScheduleOptions& o) { return dualpipe_v(o.num_stages, o.num_micro_batches); }, several_chunks},
}};

const Entry& entry(const std::string& name) {
  for (const Entry& e : entries)
    if (e.name == name) return e;
  throw ConfigError({.key = "layout.schedule",
                     .value = name,
                     .allowed = fmt::format("one of {}", fmt::join(schedule_names(), ", "))});
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> out;
  for (const Entry& e : entries) out.push_back(e.name);
  return out;
}

int chunks_a_stage(const std::string& name, int virtual_stages) {
  return virtual_stages > 1 ? virtual_stages : entry(name).chunks;
}

std::vector<std::vector<int>> stage_map(const std::string& name, int num_stages) {
  return entry(name).map == PieceMap::v ? v_shape(num_stages) : std::vector<std::vector<int>>{};
}

PieceMap piece_map(const std::string& name) {
  return entry(name).map;
}

bool can_have_chunks(const std::string& name, int virtual_stages) {
  return entry(name).any_chunks || virtual_stages <= 1 || virtual_stages == entry(name).chunks;
}

std::string why_not_runnable(const std::string& name) {
  const Entry& e = entry(name);
  return all_are_executed ? "" : e.not_runnable;
}

std::string why_not_runnable(const Schedule& s) {
  if (all_are_executed) return "";
  if (s.num_chunks > 1) return several_chunks;
  for (const auto& row : s.rows)
    for (const Slot& slot : row) {
      if (slot.kind == SlotKind::input_gradient) return split;
      if (slot.joined) return joined;
    }
  return "";
}

Schedule make_schedule(const std::string& name, const ScheduleOptions& options) {
  const Entry& e = entry(name);
  TRIREME_CHECK(options.num_stages > 0 && options.num_micro_batches > 0);
  ScheduleOptions o = options;
  o.num_chunks = chunks_a_stage(name, o.num_chunks);
  if (!e.any_chunks && o.num_chunks != e.chunks)
    throw ConfigError({.key = "layout.virtual_stages",
                       .value = fmt::format("{}", o.num_chunks),
                       .allowed = fmt::format("{} with the schedule {}", e.chunks, name)});
  const std::size_t cells = static_cast<std::size_t>(o.num_stages) * o.num_chunks;
  TRIREME_CHECK(o.times.size() <= 1 || o.times.size() == cells, "times of {} chunks, of {}", o.times.size(), cells);
  return e.make(o);
}

Schedule make_schedule(const std::string& name, int num_stages, int num_micro_batches) {
  return make_schedule(name, {.num_stages = num_stages, .num_micro_batches = num_micro_batches});
}

}  // namespace trireme::plan
