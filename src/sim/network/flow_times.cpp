#include "sim/network/flow_times.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "base/errors.h"
#include "sim/network/shared_links.h"

namespace trireme::sim {
namespace {

class Events {
 public:
  Events(const plan::Pattern& pattern, const PatternFlows& flows, double row_bytes)
      : pattern_(pattern),
        flows_(flows),
        row_bytes_(row_bytes),
        links_(flows.links().size()),
        states_(flows.flows().size()),
        free_s_(static_cast<std::size_t>(flows.period()), 0),
        spans_(pattern.phases.size()),
        awaited_by_(pattern.phases.size()) {
    for (std::size_t i = 0; i < pattern.phases.size(); ++i)
      for (const int before : pattern.phases[i].after)
        awaited_by_[static_cast<std::size_t>(before)].push_back(static_cast<int>(i));
    for (std::size_t i = 0; i < pattern.phases.size(); ++i) {
      members_.emplace_back(static_cast<std::size_t>(flows.period()));
      for (int m = 0; m < flows.period(); ++m) {
        Progress& progress = at(static_cast<int>(i), m);
        progress.waits_for = static_cast<int>(pattern.phases[i].after.size());
        progress.receives_left = flows.steps(static_cast<int>(i), m).num_receives;
      }
    }
  }

  std::vector<PhaseSpan> run() {
    std::vector<int> first;
    for (std::size_t i = 0; i < pattern_.phases.size(); ++i)
      if (pattern_.phases[i].after.empty()) first.push_back(static_cast<int>(i));
    for (int m = 0; m < flows_.period(); ++m) start(first, m);
    while (!releases_.empty() || !links_.idle()) {
      if (!releases_.empty() && (links_.idle() || releases_.top().first <= links_.next_s())) {
        const auto [time, flow] = releases_.top();
        releases_.pop();
        now_ = time;
        release(flow);
      } else {
        now_ = links_.next_s();
        const int flow = links_.end_next();
        if (--state(flow).links_left == 0) finish(flow);
      }
    }
    return spans_;
  }

 private:
  struct Progress {  // of a member in a phase
    int waits_for = 0, receives_left = 0;
    int posted = 0, ended = 0;  // steps
  };
  struct State {  // of a flow
    double posted_s = 0;
    signed char posts = 0, links_left = 0;
    bool ended = false;
  };
  using Release = std::pair<double, int>;

  Progress& at(int phase, int member) {
    return members_[static_cast<std::size_t>(phase)][static_cast<std::size_t>(member)];
  }
  State& state(int flow) { return states_[static_cast<std::size_t>(flow)]; }
  const Flow& flow(int i) const { return flows_.flows()[static_cast<std::size_t>(i)]; }
  int bound(int phase) const { return pattern_.phases[static_cast<std::size_t>(phase)].in_flight; }
  PhaseSpan& span(int phase) { return spans_[static_cast<std::size_t>(phase)]; }

  void start(std::vector<int> phases, int member) {
    std::stable_partition(phases.begin(), phases.end(),
                          [&](int i) { return !awaited_by_[static_cast<std::size_t>(i)].empty(); });
    for (const int i : phases) {
      span(i).begin_s = std::max(span(i).begin_s, now_);
      span(i).end_s = std::max(span(i).end_s, now_);
      post(i, member);
    }
    for (const int i : phases)
      if (at(i, member).receives_left == 0) arrived(i, member);
  }

  void arrived(int phase, int member) {
    std::vector<int> ready;
    for (const int later : awaited_by_[static_cast<std::size_t>(phase)])
      if (--at(later, member).waits_for == 0) ready.push_back(later);
    if (!ready.empty()) start(std::move(ready), member);
  }

  bool is_over(int f) { return f == Steps::none || state(f).ended; }

  void post(int phase, int member) {
    Progress& progress = at(phase, member);
    const Steps& steps = flows_.steps(phase, member);
    const int last = static_cast<int>(steps.own_s.size()), limit = bound(phase);
    double& free = free_s_[static_cast<std::size_t>(member)];
    while (true) {
      while (limit > 0 && progress.ended < progress.posted &&
             is_over(steps.sends[static_cast<std::size_t>(progress.ended)]) &&
             is_over(steps.receives[static_cast<std::size_t>(progress.ended)]))
        ++progress.ended;
      if (progress.posted == last || (limit > 0 && progress.posted == progress.ended + limit)) return;
      const auto step = static_cast<std::size_t>(progress.posted++);
      free = std::max(free, now_) + steps.own_s[step];
      for (const int f : {steps.receives[step], steps.sends[step]})
        if (f != Steps::none) posted(f, free);
    }
  }

  void posted(int f, double time) {
    State& s = state(f);
    s.posted_s = std::max(s.posted_s, time);
    if (++s.posts == 2) releases_.emplace(s.posted_s + flows_.latency_s(flow(f)), f);
  }

  void release(int f) {
    const Flow& fl = flow(f);
    const LinkPath path = flows_.links().path(fl.from, fl.to);
    state(f).links_left = static_cast<signed char>(path.count);
    for (const int link : path) links_.add(now_, link, fl.rows * row_bytes_ * flows_.links().seconds_per_byte(link), f);
  }

  void finish(int f) {
    const Flow& fl = flow(f);
    state(f).ended = true;
    span(fl.phase).end_s = now_;
    const int from = flows_.sender(fl), to = flows_.receiver(fl);
    if (bound(fl.phase) > 0) {
      post(fl.phase, from);
      post(fl.phase, to);
    }
    if (--at(fl.phase, to).receives_left == 0) arrived(fl.phase, to);
  }

  const plan::Pattern& pattern_;
  const PatternFlows& flows_;
  double row_bytes_;
  SharedLinks links_;
  std::vector<State> states_;
  std::vector<double> free_s_;  // from when a member's thread is
  std::vector<PhaseSpan> spans_;
  std::vector<std::vector<int>> awaited_by_;    // by phase
  std::vector<std::vector<Progress>> members_;  // by phase and member
  std::priority_queue<Release, std::vector<Release>, std::greater<>> releases_;
  double now_ = 0;
};

}  // namespace

std::vector<PhaseSpan> times_by_events(const plan::Pattern& pattern, const PatternFlows& flows, double row_bytes) {
  return Events(pattern, flows, row_bytes).run();
}

PhaseSpan time_of_one_phase(const PatternFlows& flows, double row_bytes) {
  std::vector<std::vector<double>> post_s(static_cast<std::size_t>(flows.period()));
  for (int m = 0; m < flows.period(); ++m) {
    double free = 0;
    for (const double own : flows.steps(0, m).own_s) post_s[static_cast<std::size_t>(m)].push_back(free += own);
  }
  const auto posted = [&](int member, int step) {
    return post_s[static_cast<std::size_t>(member)][static_cast<std::size_t>(step)];
  };
  // A link that never rests with work before it ends when all of it is done: whom it serves first does not matter.
  struct Wanted {
    double release_s, work_s;
  };
  std::vector<std::vector<Wanted>> wanted(static_cast<std::size_t>(flows.links().size()));
  for (const Flow& flow : flows.flows()) {
    const double release = std::max(posted(flows.sender(flow), flow.send), posted(flows.receiver(flow), flow.receive)) +
                           flows.latency_s(flow);
    for (const int link : flows.links().path(flow.from, flow.to))
      wanted[static_cast<std::size_t>(link)].push_back({release, flow.rows * row_bytes * flows.links().seconds_per_byte(link)});
  }
  PhaseSpan span;
  for (auto& of_link : wanted) {
    const auto by_release = [](const Wanted& a, const Wanted& b) { return a.release_s < b.release_s; };
    if (!std::is_sorted(of_link.begin(), of_link.end(), by_release))
      std::sort(of_link.begin(), of_link.end(), by_release);
    double end = 0;
    for (const Wanted& w : of_link) end = std::max(end, w.release_s) + w.work_s;
    span.end_s = std::max(span.end_s, end);
  }
  return span;
}

}  // namespace trireme::sim
