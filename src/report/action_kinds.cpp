#include "report/action_kinds.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

namespace trireme::report {

using plan::Action;
using plan::ActionKind;

std::string kind_of(const Action& a, const plan::StagePlan& stage) {
  const char* pass = a.pass == plan::Pass::forward ? "forward" : "backward";
  switch (a.kind) {
    case ActionKind::send:
    case ActionKind::receive: return fmt::format("{} {}", name_of(a.kind), pass);
    case ActionKind::all_to_all: return fmt::format("all_to_all {} {}", pass, model::name_of(a.segment));
    case ActionKind::reduce:
      if (a.bucket < 0) break;
      return stage.buckets[a.bucket].expert ? "reduce experts" : "reduce dense";
    default: break;
  }
  if (a.segment != model::Segment::none) return fmt::format("{} {}", name_of(a.kind), model::name_of(a.segment));
  return name_of(a.kind);
}

std::vector<KindTime> by_kind(const plan::Plan& plan, const std::vector<plan::RankTimeline>& ranks) {
  std::vector<KindTime> out;
  std::map<std::string, std::size_t> index;
  for (const plan::RankTimeline& rank : ranks) {
    const plan::StagePlan& stage = plan.stages.at(plan.mesh.pp_index(rank.rank));
    for (std::size_t i = 0; i < stage.actions.size() && i < rank.spans.size(); ++i) {
      const std::string kind = kind_of(stage.actions[i], stage);
      const auto [at, fresh] = index.try_emplace(kind, out.size());
      if (fresh) out.push_back({.kind = kind, .lane = stage.actions[i].lane});
      KindTime& k = out[at->second];
      ++k.count;
      k.total_s += rank.spans[i].end_s - rank.spans[i].start_s;
    }
  }
  return out;
}

double lane_s(const plan::StagePlan& stage, const std::vector<plan::Span>& spans, plan::Lane lane) {
  double sum = 0;
  for (std::size_t i = 0; i < stage.actions.size() && i < spans.size(); ++i)
    if (stage.actions[i].lane == lane) sum += spans[i].end_s - spans[i].start_s;
  return sum;
}

std::string compute_strip(const plan::StagePlan& stage, const std::vector<plan::Span>& spans, double step_s, int width) {
  constexpr std::array<char, 4> signs = {'F', 'B', 'o', 'l'};
  std::vector<std::array<double, signs.size()>> filled(width, {0, 0, 0, 0});
  const double cell = step_s / width;
  if (!(cell > 0)) return std::string(width, '.');
  for (std::size_t i = 0; i < stage.actions.size() && i < spans.size(); ++i) {
    const Action& a = stage.actions[i];
    if (a.lane != plan::Lane::compute) continue;
    const int sign = a.kind == ActionKind::forward ? 0
                     : a.kind == ActionKind::load_batch ? 3
                     : a.kind == ActionKind::optimizer || a.kind == ActionKind::gradient_norm ? 2 : 1;
    // A span may lie far beyond the strip: measured ones are read from a file.
    const auto column = [&](double s) { return static_cast<int>(std::clamp(s / cell, 0.0, width - 1.0)); };
    const int first = column(spans[i].start_s), last = column(spans[i].end_s);
    for (int c = first; c <= last; ++c)
      filled[c][sign] += std::max(0.0, std::min(spans[i].end_s, (c + 1) * cell) - std::max(spans[i].start_s, c * cell));
  }
  std::string out(width, '.');
  for (int c = 0; c < width; ++c) {
    const auto most = std::max_element(filled[c].begin(), filled[c].end());
    double sum = 0;
    for (double f : filled[c]) sum += f;
    if (sum >= cell / 2) out[c] = signs[most - filled[c].begin()];
  }
  return out;
}

}  // namespace trireme::report
