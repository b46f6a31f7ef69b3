#include "plan/memory_curve.h"

#include <algorithm>
#include <array>

#include "base/errors.h"

namespace trireme::plan {

namespace {

struct Event {
  double time_s = 0;
  bool start = false;
  int action = 0;
};

constexpr int num_kinds = 6;  // BufferKind's on the device, in its order, and the workspace
constexpr std::array<const char*, num_kinds> kind_names = {"boundary", "saved",       "gradient",
                                                           "batch",    "weight work", "workspace"};

}  // namespace

MemoryCurve memory_curve(const StagePlan& stage, const StageCosts& costs, const std::vector<Span>& spans) {
  const std::size_t n = stage.actions.size();
  TRIREME_CHECK(spans.size() == n && costs.action_workspace_bytes.size() == n && costs.buffer_bytes.size() == stage.buffers.size(),
                "{} actions, {} spans", n, spans.size());
  std::vector<Event> events;
  events.reserve(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    events.push_back({spans[i].start_s, true, static_cast<int>(i)});
    events.push_back({spans[i].end_s, false, static_cast<int>(i)});
  }
  // An action of no length starts before it ends all the same: its two events keep their order.
  std::stable_sort(events.begin(), events.end(), [&](const Event& a, const Event& b) {
    if (a.time_s != b.time_s) return a.time_s < b.time_s;
    const auto rank = [&](const Event& e) {
      const bool instant = spans[e.action].start_s == spans[e.action].end_s;
      return instant ? 1 : (e.start ? 2 : 0);
    };
    return rank(a) < rank(b);
  });

  MemoryCurve out;
  std::array<double, num_kinds> held{};
  const auto kind_of = [&](int buffer) { return static_cast<int>(stage.buffers[buffer].kind); };
  const auto total = [&] {
    double sum = costs.constant_bytes;
    for (double h : held) sum += h;
    return sum;
  };
  // The part of a forward's own transient that is counted already as its input.
  const auto shared = [&](const Action& a) {
    if (a.kind != ActionKind::forward) return 0.0;
    double saved = 0, freed = 0;
    for (int b : a.allocates)
      if (stage.buffers[b].kind == BufferKind::saved) saved += costs.buffer_bytes[b];
    for (int b : a.frees)
      if (stage.buffers[b].kind == BufferKind::boundary) freed += costs.buffer_bytes[b];
    return std::min(saved, freed);
  };
  out.peak_bytes = costs.constant_bytes;
  std::array<double, num_kinds> at_peak{};
  out.points.push_back({0, costs.constant_bytes});
  for (const Event& e : events) {
    const Action& a = stage.actions[e.action];
    const double workspace = costs.action_workspace_bytes[e.action] - shared(a);
    constexpr int workspace_kind = num_kinds - 1;
    held[workspace_kind] += e.start ? workspace : -workspace;
    for (int b : e.start ? a.allocates : a.frees)
      if (stage.buffers[b].kind != BufferKind::host) held[kind_of(b)] += (e.start ? 1 : -1) * costs.buffer_bytes[b];
    const double now = total();
    if (out.points.back().time_s == e.time_s)
      out.points.back().bytes = now;
    else if (out.points.back().bytes != now)
      out.points.push_back({e.time_s, now});
    if (e.start && now > out.peak_bytes) {
      out.peak_bytes = now;
      out.peak_time_s = e.time_s;
      out.peak_action = e.action;
      at_peak = held;
    }
  }
  out.at_peak.push_back({"parameters and optimizer", costs.constant_bytes});
  for (int k = 0; k < num_kinds; ++k)
    if (at_peak[k] != 0) out.at_peak.push_back({kind_names[k], at_peak[k]});
  return out;
}

}  // namespace trireme::plan
