#include "report/exposure.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "report/action_kinds.h"

namespace trireme::report {

using plan::Action;
using plan::ActionKind;
using plan::Lane;
using plan::Span;

namespace {

constexpr const char* bubble = "bubble";

// Whether no rank of another stage takes part.
bool is_inside_stage(const Action& a, const plan::Mesh& mesh) {
  if (a.kind == ActionKind::send || a.kind == ActionKind::receive) return false;
  if (a.lane == Lane::copy || a.lane == Lane::copy_in || mesh.pp == 1) return true;
  return !a.group.embedding && !a.group.axes.has(Axis::pp);
}

Span within(const Span& s, double from, double to) {
  return {std::clamp(s.start_s, from, to), std::clamp(s.end_s, from, to)};
}

double length(const Span& s) {
  return std::max(0.0, s.end_s - s.start_s);
}

// Idle time of a rank: intervals in order, and how much of it lies before a moment.
class Idle {
 public:
  Idle(const std::vector<Action>& actions, const std::vector<Span>& spans, double step_s) {
    std::vector<Span> busy;
    for (std::size_t i = 0; i < actions.size() && i < spans.size(); ++i)
      if (actions[i].lane == Lane::compute) busy.push_back(within(spans[i], 0, step_s));
    std::sort(busy.begin(), busy.end(), [](const Span& a, const Span& b) { return a.start_s < b.start_s; });
    double at = 0;
    for (const Span& s : busy) {
      add(at, s.start_s);
      at = std::max(at, s.end_s);
    }
    add(at, step_s);
  }

  const std::vector<Span>& intervals() const { return intervals_; }

  double before(double moment) const {
    const auto next = std::upper_bound(intervals_.begin(), intervals_.end(), moment,
                                       [](double m, const Span& s) { return m < s.start_s; });
    if (next == intervals_.begin()) return 0;
    const auto i = static_cast<std::size_t>(next - intervals_.begin()) - 1;
    return before_[i] + std::min(moment, intervals_[i].end_s) - intervals_[i].start_s;
  }
  double inside(const Span& s) const { return length(s) > 0 ? before(s.end_s) - before(s.start_s) : 0; }

 private:
  void add(double from, double to) {
    if (to <= from) return;
    before_.push_back(intervals_.empty() ? 0 : before_.back() + length(intervals_.back()));
    intervals_.push_back({from, to});
  }
  std::vector<Span> intervals_;
  std::vector<double> before_;  // idle time before each interval
};

struct Named {
  Span span;
  std::string kind;
};

// Messages inside the stage, cut where they overlap: the one that began first keeps its time.
std::vector<Named> waits_inside_stage(const plan::Plan& plan, const plan::StagePlan& stage,
                                      const plan::RankTimeline& timeline) {
  std::vector<Named> out;
  for (std::size_t i = 0; i < stage.actions.size() && i < timeline.spans.size(); ++i) {
    const Action& a = stage.actions[i];
    if (a.lane == Lane::compute || !is_inside_stage(a, plan.mesh)) continue;
    const Span span = within(timeline.spans[i], 0, timeline.step_s);
    if (length(span) > 0) out.push_back({span, kind_of(a, stage)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Named& a, const Named& b) { return a.span.start_s < b.span.start_s; });
  double at = 0;
  for (Named& n : out) {
    n.span.start_s = std::max(n.span.start_s, at);
    at = std::max(at, n.span.end_s);
  }
  std::erase_if(out, [](const Named& n) { return length(n.span) <= 0; });
  return out;
}

bool begins_backward(const Action& a) {
  return a.lane == Lane::compute &&
         (a.kind == ActionKind::backward || a.kind == ActionKind::input_gradient || a.kind == ActionKind::pair);
}
bool is_forward(const Action& a) {
  return a.lane == Lane::compute && a.pass == plan::Pass::forward &&
         (a.kind == ActionKind::forward || a.kind == ActionKind::pair);
}

// Where the phases begin and end: four moments.
std::array<double, num_pipeline_phases + 1> phase_bounds(const plan::StagePlan& stage,
                                                         const plan::RankTimeline& timeline) {
  double first_backward = timeline.step_s, last_forward = 0;
  for (std::size_t i = 0; i < stage.actions.size() && i < timeline.spans.size(); ++i) {
    const Span span = within(timeline.spans[i], 0, timeline.step_s);
    if (begins_backward(stage.actions[i])) first_backward = std::min(first_backward, span.start_s);
    if (is_forward(stage.actions[i])) last_forward = std::max(last_forward, span.end_s);
  }
  return {0, first_backward, std::max(first_backward, last_forward), timeline.step_s};
}

const plan::StagePlan& stage_of(const plan::Plan& plan, int rank) {
  return plan.stages.at(static_cast<std::size_t>(plan.mesh.pp_index(rank)));
}

}  // namespace

const char* name_of(PipelinePhase phase) {
  switch (phase) {
    case PipelinePhase::warm_up:
      return "warm_up";
    case PipelinePhase::steady:
      return "steady";
    case PipelinePhase::cool_down:
      break;
  }
  return "cool_down";
}

double PhaseExposure::exposed_all_to_all_fraction() const {
  double total = 0, exposed = 0;
  for (const MessageTime& m : messages)
    if (m.lane == Lane::ep) total += m.total_s, exposed += m.exposed_s;
  return total > 0 ? std::min(1.0, exposed / total) : 0;  // sums round
}

void PhaseExposure::add(const PhaseExposure& other) {
  length_s += other.length_s;
  compute_s += other.compute_s;
  bubble_s += other.bubble_s;
  for (const MessageTime& m : other.messages) {
    auto at =
        std::find_if(messages.begin(), messages.end(), [&](const MessageTime& own) { return own.kind == m.kind; });
    if (at == messages.end()) at = messages.insert(at, MessageTime{.kind = m.kind, .lane = m.lane});
    at->total_s += m.total_s;
    at->exposed_s += m.exposed_s;
  }
}

PhaseExposure RankExposure::step() const {
  PhaseExposure out;
  for (const PhaseExposure& phase : phases) out.add(phase);
  return out;
}

RankExposure exposure(const plan::Plan& plan, const plan::RankTimeline& timeline) {
  const plan::StagePlan& stage = stage_of(plan, timeline.rank);
  const Idle idle(stage.actions, timeline.spans, timeline.step_s);
  const std::vector<Named> waits = waits_inside_stage(plan, stage, timeline);
  const auto bounds = phase_bounds(stage, timeline);
  RankExposure out{.rank = timeline.rank, .stage = plan.mesh.pp_index(timeline.rank), .phases = {}};

  std::vector<MessageTime> kinds;  // in the order of their first action
  std::map<std::string, std::size_t> index;
  std::vector<std::size_t> kind_of_action(stage.actions.size());
  for (std::size_t i = 0; i < stage.actions.size(); ++i) {
    if (stage.actions[i].lane == Lane::compute) continue;
    const auto [at, fresh] = index.try_emplace(kind_of(stage.actions[i], stage), kinds.size());
    if (fresh) kinds.push_back({.kind = at->first, .lane = stage.actions[i].lane});
    kind_of_action[i] = at->second;
  }
  for (int p = 0; p < num_pipeline_phases; ++p) {
    PhaseExposure& phase = out.phases[static_cast<std::size_t>(p)];
    const double from = bounds[static_cast<std::size_t>(p)], to = bounds[static_cast<std::size_t>(p) + 1];
    const double idle_s = idle.inside({from, to});
    phase.length_s = to - from;
    phase.compute_s = phase.length_s - idle_s;
    phase.bubble_s = idle_s;
    for (const Named& n : waits) phase.bubble_s -= idle.inside(within(n.span, from, to));
    phase.bubble_s = std::max(0.0, phase.bubble_s);  // rounding
    std::vector<MessageTime> messages = kinds;
    for (std::size_t i = 0; i < stage.actions.size() && i < timeline.spans.size(); ++i) {
      if (stage.actions[i].lane == Lane::compute) continue;
      const Span span = within(timeline.spans[i], from, to);
      messages[kind_of_action[i]].total_s += length(span);
      messages[kind_of_action[i]].exposed_s += idle.inside(span);
    }
    std::erase_if(messages, [](const MessageTime& m) { return m.total_s <= 0; });
    phase.messages = std::move(messages);
  }
  return out;
}

std::vector<RankExposure> exposures(const plan::Plan& plan, const std::vector<plan::RankTimeline>& timelines) {
  std::vector<RankExposure> out;
  for (const plan::RankTimeline& t : timelines) out.push_back(exposure(plan, t));
  return out;
}

PhaseExposure of_phase(const std::vector<RankExposure>& ranks, PipelinePhase phase) {
  PhaseExposure out;
  for (const RankExposure& rank : ranks) out.add(rank.phases[static_cast<std::size_t>(phase)]);
  return out;
}

PhaseExposure of_step(const std::vector<RankExposure>& ranks) {
  PhaseExposure out;
  for (const RankExposure& rank : ranks) out.add(rank.step());
  return out;
}

std::vector<IdlePiece> idle_pieces(const plan::Plan& plan, const plan::RankTimeline& timeline) {
  const plan::StagePlan& stage = stage_of(plan, timeline.rank);
  const Idle idle(stage.actions, timeline.spans, timeline.step_s);
  const std::vector<Named> waits = waits_inside_stage(plan, stage, timeline);
  std::vector<IdlePiece> out;
  std::size_t next = 0;
  for (const Span& interval : idle.intervals()) {
    double at = interval.start_s;
    while (next < waits.size() && waits[next].span.end_s <= at) ++next;
    for (std::size_t i = next; i < waits.size() && waits[i].span.start_s < interval.end_s; ++i) {
      const Span part = within(waits[i].span, at, interval.end_s);
      if (part.start_s > at) out.push_back({at, part.start_s, bubble});
      if (length(part) > 0) out.push_back({part.start_s, part.end_s, waits[i].kind});
      at = std::max(at, part.end_s);
    }
    if (at < interval.end_s) out.push_back({at, interval.end_s, bubble});
  }
  return out;
}

}  // namespace trireme::report
