#include "report/trace.h"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/action_kinds.h"

namespace trireme::report {

std::string trace_json(const plan::Plan& plan, const std::vector<TraceGroup>& groups) {
  nlohmann::json events = nlohmann::json::array();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const plan::RankTimeline& rank : groups[g].ranks) {
      const int pid = static_cast<int>(g) * 100000 + rank.rank;
      const plan::StagePlan& stage = plan.stages.at(plan.mesh.pp_index(rank.rank));
      events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", pid},
                        {"args", {{"name", fmt::format("{} rank {} (stage {})", groups[g].name, rank.rank, plan.mesh.pp_index(rank.rank))}}}});
      events.push_back({{"ph", "M"}, {"name", "process_sort_index"}, {"pid", pid},
                        {"args", {{"sort_index", rank.rank * static_cast<int>(groups.size()) + static_cast<int>(g)}}}});
      std::array<bool, plan::num_lanes> used{};
      for (std::size_t i = 0; i < stage.actions.size() && i < rank.spans.size(); ++i) {
        const plan::Action& a = stage.actions[i];
        const int lane = static_cast<int>(a.lane);
        if (!used[lane]) {
          used[lane] = true;
          events.push_back({{"ph", "M"}, {"name", "thread_name"}, {"pid", pid}, {"tid", lane + 1},
                            {"args", {{"name", name_of(a.lane)}}}});
        }
        events.push_back({{"ph", "X"}, {"name", kind_of(a, stage)}, {"cat", name_of(a.kind)}, {"pid", pid}, {"tid", lane + 1},
                          {"ts", rank.spans[i].start_s * 1e6}, {"dur", (rank.spans[i].end_s - rank.spans[i].start_s) * 1e6},
                          {"args", {{"action", describe(a)}, {"id", a.id}}}});
      }
    }
  }
  return nlohmann::json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace trireme::report
