#include "plan/pipeline/interleaved_1f1b.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"

namespace trireme::plan {

namespace {

bool groups_well(int stages, int micro_batches, int group) {
  const int rest = micro_batches % group;
  return group >= stages && group <= micro_batches && (rest == 0 || rest >= stages);
}

}  // namespace

std::vector<Slot> interleaved_forwards(const ScheduleOptions& o) {
  const int p = o.num_stages, m = o.num_micro_batches;
  const int group = o.micro_batch_group > 0 ? o.micro_batch_group : p;
  if (!groups_well(p, m, group)) {
    const auto fail = [&](std::string allowed) {
      throw ConfigError(
          {.key = "layout.micro_batch_group", .value = fmt::format("{}", group), .allowed = std::move(allowed)});
    };
    if (m < p) fail(fmt::format("at least as many micro-batches ({}) as stages ({})", m, p));
    int good = p;
    while (!groups_well(p, m, good)) ++good;  // m itself always is
    fail(fmt::format("from {} stages to {} micro-batches, leaving no micro-batches over or at least {}: {} would do", p,
                     m, p, good));
  }
  std::vector<Slot> out;
  for (int first = 0; first < m; first += group)
    for (int chunk = 0; chunk < o.num_chunks; ++chunk)
      for (int mb = first; mb < std::min(m, first + group); ++mb) out.push_back({SlotKind::forward, mb, chunk});
  return out;
}

void fill_interleaved_rows(Schedule& s, const std::vector<Slot>& forwards, int warm_up_of_last, bool joined) {
  const int total = static_cast<int>(forwards.size());
  const auto backward = [&](int i) {
    return Slot{SlotKind::backward, forwards[i].mb, s.num_chunks - 1 - forwards[i].chunk};
  };
  for (int stage = 0; stage < s.num_stages; ++stage) {
    const int warm_up = std::min(2 * (s.num_stages - 1 - stage) + warm_up_of_last, total);
    auto& row = s.rows.emplace_back(forwards.begin(), forwards.begin() + warm_up);
    row.reserve(2 * total);
    for (int i = 0; i + warm_up < total; ++i) {
      row.push_back(forwards[i + warm_up]);
      row.back().joined = joined;
      row.push_back(backward(i));
    }
    for (int i = total - warm_up; i < total; ++i) row.push_back(backward(i));
  }
}

Schedule interleaved_1f1b(const ScheduleOptions& o) {
  if (o.num_chunks < 2)
    throw ConfigError({.key = "layout.virtual_stages",
                       .value = fmt::format("{}", o.num_chunks),
                       .allowed = "at least 2 with the schedule interleaved_1f1b"});
  const auto forwards = interleaved_forwards(o);
  const int group = o.micro_batch_group > 0 ? o.micro_batch_group : o.num_stages;
  Schedule s{.name = "interleaved_1f1b",
             .num_stages = o.num_stages,
             .num_micro_batches = o.num_micro_batches,
             .num_chunks = o.num_chunks};
  fill_interleaved_rows(s, forwards, (o.num_chunks - 1) * group, /*joined=*/false);
  return s;
}

}  // namespace trireme::plan
