#include "report/trace.h"

#include <array>
#include <map>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/action_kinds.h"
#include "report/exposure.h"

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
      if (const auto pieces = idle_pieces(plan, rank); !pieces.empty() && !rank.spans.empty()) {
        events.push_back({{"ph", "M"}, {"name", "thread_name"}, {"pid", pid}, {"tid", plan::num_lanes + 1}, {"args", {{"name", "idle"}}}});
        for (const IdlePiece& piece : pieces)
          events.push_back({{"ph", "X"}, {"name", piece.waits_for}, {"cat", "idle"}, {"pid", pid}, {"tid", plan::num_lanes + 1},
                            {"ts", piece.start_s * 1e6}, {"dur", (piece.end_s - piece.start_s) * 1e6}});
      }
      // A phase's name is a thread of its own: phases lie side by side.
      std::map<std::string, int> thread_of;
      for (const plan::PhaseSpan& p : rank.phases) {
        const auto [at, fresh] = thread_of.try_emplace(p.phase, plan::num_lanes + 2 + static_cast<int>(thread_of.size()));
        if (fresh)
          events.push_back({{"ph", "M"}, {"name", "thread_name"}, {"pid", pid}, {"tid", at->second},
                            {"args", {{"name", "phase " + p.phase}}}});
        events.push_back({{"ph", "X"}, {"name", fmt::format("{} {}", p.phase, p.part)}, {"cat", "phase"}, {"pid", pid},
                          {"tid", at->second}, {"ts", p.start_s * 1e6}, {"dur", (p.end_s - p.start_s) * 1e6},
                          {"args", {{"action", describe(stage.actions.at(static_cast<std::size_t>(p.action)))}, {"id", p.action}}}});
      }
    }
  }
  return nlohmann::json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace trireme::report
