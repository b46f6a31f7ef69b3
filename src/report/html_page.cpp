#include "report/html_page.h"

#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/printable.h"
#include "report/action_kinds.h"
#include "report/colours.h"
#include "report/exposure.h"

namespace trireme::report {

namespace {

constexpr int most_ranks = 64;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

// JSON inside <script>: "</script>" must not end it.
std::string inside_script(const std::string& json) {
  std::string out;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '<') out += "\\u003c";
    else out += json[i];
  }
  return out;
}

// In one pass over the template: a title or a text that holds a mark is not looked at again.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& marks) {
  std::string out;
  for (std::size_t at = 0; at < page.size();) {
    std::size_t first = std::string_view::npos;
    const std::pair<const std::string_view, std::string>* next = nullptr;
    for (const auto& mark : marks)
      if (const std::size_t found = page.find(mark.first, at); found < first) first = found, next = &mark;
    out += page.substr(at, first - at);
    if (!next) break;
    out += next->second;
    at = first + next->first.size();
  }
  return out;
}

double micro(double s) { return std::round(s * 1e8) / 1e2; }  // microseconds to two digits: short text

// Names once, spans as [lane, start, length, kind, name].
class Names {
 public:
  int index(const std::string& name) {
    const auto [at, fresh] = index_.try_emplace(name, static_cast<int>(list.size()));
    if (fresh) list.push_back(name);
    return at->second;
  }
  nlohmann::json list = nlohmann::json::array();

 private:
  std::map<std::string, int> index_;
};

// What an idle compute lane waits for has a row below the lanes, and each phase of the exchanges: they lie side by side.
nlohmann::json spans_json(const plan::Plan& plan, const plan::RankTimeline& timeline, Names& lanes, Names& kinds, Names& names) {
  const plan::StagePlan& stage = plan.stages[static_cast<std::size_t>(plan.mesh.pp_index(timeline.rank))];
  nlohmann::json out = nlohmann::json::array();
  const auto& spans = timeline.spans;
  for (std::size_t i = 0; i < stage.actions.size() && i < spans.size(); ++i) {
    const plan::Action& a = stage.actions[i];
    out.push_back({static_cast<int>(a.lane), micro(spans[i].start_s), micro(spans[i].end_s - spans[i].start_s),
                   kinds.index(kind_of(a, stage)), names.index(describe(a))});
  }
  if (!spans.empty())
    for (const IdlePiece& piece : idle_pieces(plan, timeline))
      out.push_back({lanes.index("idle"), micro(piece.start_s), micro(piece.end_s - piece.start_s), kinds.index(piece.waits_for),
                     names.index(piece.waits_for == "bubble" ? "bubble: waits for other stages" : "waits for " + piece.waits_for)});
  for (const plan::PhaseSpan& p : timeline.phases) {
    const plan::Action& a = stage.actions.at(static_cast<std::size_t>(p.action));
    out.push_back({lanes.index("phase " + p.phase), micro(p.start_s), micro(p.end_s - p.start_s),
                   kinds.index("all_to_all phase " + p.phase), names.index(fmt::format("{}: {}, phase {}", describe(a), p.part, p.phase))});
  }
  return out;
}

}  // namespace

std::string html_page(const PageInput& in) {
  Names lanes, kinds, names;
  for (int lane = 0; lane < plan::num_lanes; ++lane) lanes.index(name_of(static_cast<plan::Lane>(lane)));
  nlohmann::json ranks = nlohmann::json::array();
  std::map<int, const plan::RankTimeline*> measured;
  for (const plan::RankTimeline& m : in.measured) measured[m.rank] = &m;
  const bool all = in.plan.mesh.world() <= most_ranks;
  for (const plan::RankTimeline& p : in.predicted.ranks) {
    if (!all && in.plan.mesh.dp_index(p.rank) != 0) continue;
    const int s = in.plan.mesh.pp_index(p.rank);
    nlohmann::json rank = {{"rank", p.rank}, {"stage", s}, {"predicted", spans_json(in.plan, p, lanes, kinds, names)},
                           {"predicted_peak", p.peak_memory_bytes}, {"measured", nullptr}, {"measured_peak", nullptr}};
    if (const auto at = measured.find(p.rank); at != measured.end()) {
      rank["measured"] = spans_json(in.plan, *at->second, lanes, kinds, names);
      if (at->second->peak_memory_bytes > 0) rank["measured_peak"] = at->second->peak_memory_bytes;
    }
    ranks.push_back(rank);
  }
  nlohmann::json memory = nlohmann::json::array();
  for (const plan::MemoryCurve& m : in.predicted.memory) {
    nlohmann::json parts = nlohmann::json::array(), points = nlohmann::json::array();
    for (const plan::MemoryPart& p : m.at_peak) parts.push_back({p.what, p.bytes});
    for (const plan::MemoryPoint& p : m.points) points.push_back({micro(p.time_s), p.bytes});
    memory.push_back({{"parts", parts}, {"points", points}});
  }
  nlohmann::json facts = nlohmann::json::array();
  for (const Fact& f : in.facts) facts.push_back({f.what, f.value});
  nlohmann::json data = {{"title", printable(in.title)}, {"facts", facts}, {"colours", colours_of(kinds.list)}, {"palette", palette()}, {"text", in.text}, {"lanes", lanes.list}, {"ranks", ranks}, {"memory", memory},
                         {"kinds", kinds.list}, {"names", names.list}, {"predicted_step_s", in.predicted.step_s},
                         {"all_ranks", all}, {"measured_as", in.measured_as}, {"report", nullptr}};
  if (in.report) data["report"] = run_json(*in.report);
  std::string page = page_template;
  if (const std::size_t end = page.rfind("</body>"); end != std::string::npos) page.insert(end, router_section);
  return filled(page, {{"@TITLE@", escaped(printable(in.title))}, {"@DATA@", inside_script(json_text(data))}});
}

}  // namespace trireme::report
