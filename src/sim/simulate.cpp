#include "sim/simulate.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/errors.h"
#include "sim/rendezvous.h"

namespace trireme::sim {

using plan::Action;
using plan::Lane;
using plan::num_lanes;

namespace {

// Something that takes time: an action with those that run with it, or the waking of a lane before its action.
struct Work {
  int set = -1;       // of a rendezvous, -1: one action alone
  Member member;      // the action, or any of the set
  double remaining = 0;
  double rate = 1;
  bool waking = false;
};

class Execution {
 public:
  Execution(const plan::Plan& plan, const plan::Costs& costs, const SimulateOptions& options)
      : plan_(plan), costs_(costs), o_(options), together_(match(plan)), stages_(plan.stages.size()) {
    TRIREME_CHECK(costs.stages.size() == plan.stages.size(), "costs of {} stages for {}", costs.stages.size(), plan.stages.size());
    arrived_.assign(together_.sets.size(), 0);
    for (std::size_t s = 0; s < stages_.size(); ++s) prepare(static_cast<int>(s));
    count_neighbours();
  }

  SimResult run() {
    for (std::size_t s = 0; s < stages_.size(); ++s)
      for (int lane = 0; lane < num_lanes; ++lane) try_start(static_cast<int>(s), lane);
    while (!active_.empty()) advance();
    SimResult out;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      check_done(static_cast<int>(s));
      for (const plan::Span& span : stages_[s].spans) out.step_s = std::max(out.step_s, span.end_s);
      if (o_.memory) out.memory.push_back(plan::memory_curve(plan_.stages[s], costs_.stages[s], stages_[s].spans));
      out.spans.push_back(std::move(stages_[s].spans));
    }
    return out;
  }

 private:
  struct Stage {
    std::array<std::vector<int>, num_lanes> queue;  // action ids
    std::array<std::size_t, num_lanes> next{};      // place in the queue
    std::array<bool, num_lanes> occupied{};         // runs, wakes or waits for its partner
    std::array<double, num_lanes> free_since{};
    std::vector<int> pending;                       // waits that are not complete
    std::vector<int> first_successor;               // into successors; one more than actions
    std::vector<int> successors;
    std::vector<plan::Span> spans;
    std::vector<std::pair<int, int>> neighbours;    // (stage, its ranks on this stage's host)
    int computing = 0;                              // 1 while its compute lane works
    int messages = 0;                               // lanes whose message is on its way
  };

  void prepare(int s) {
    Stage& stage = stages_[s];
    const auto& actions = plan_.stages[s].actions;
    TRIREME_CHECK(costs_.stages[s].action_s.size() == actions.size(), "stage {}: {} prices for {} actions", s,
                  costs_.stages[s].action_s.size(), actions.size());
    stage.pending.resize(actions.size());
    stage.spans.resize(actions.size());
    stage.first_successor.assign(actions.size() + 1, 0);
    for (const Action& a : actions) {
      stage.queue[static_cast<int>(a.lane)].push_back(a.id);
      stage.pending[a.id] = static_cast<int>(a.waits.size());
      for (int w : a.waits) {
        TRIREME_CHECK(w >= 0 && w < static_cast<int>(actions.size()), "stage {}: \"{}\" waits for action {}", s, plan::describe(a), w);
        ++stage.first_successor[w + 1];
      }
    }
    for (std::size_t i = 0; i < actions.size(); ++i) stage.first_successor[i + 1] += stage.first_successor[i];
    stage.successors.resize(stage.first_successor.back());
    std::vector<int> at(stage.first_successor.begin(), stage.first_successor.end() - 1);
    for (const Action& a : actions)
      for (int w : a.waits) stage.successors[at[w]++] = a.id;
  }

  // How many ranks of each stage run on the host of a stage's first rank.
  void count_neighbours() {
    if (o_.cores <= 0) return;
    const int dp = plan_.mesh.dp;
    const int per_host = o_.ranks_per_host > 0 ? o_.ranks_per_host : plan_.mesh.world();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const int first = static_cast<int>(s) * dp / per_host * per_host, last = first + per_host;
      for (std::size_t t = 0; t < stages_.size(); ++t) {
        const int begin = static_cast<int>(t) * dp, end = begin + dp;
        const int ranks = std::min(last, end) - std::max(first, begin);
        if (ranks > 0) stages_[s].neighbours.push_back({static_cast<int>(t), ranks});
      }
    }
  }

  double busy_ranks(int s) const {
    double compute = 0, messages = 0;
    for (const auto& [t, ranks] : stages_[s].neighbours) {
      compute += stages_[t].computing * ranks;
      messages += stages_[t].messages * ranks;
    }
    return compute + o_.communication_core_share * messages / std::max(1, o_.threads);
  }

  void try_start(int s, int lane) {
    Stage& stage = stages_[s];
    if (stage.occupied[lane] || stage.next[lane] == stage.queue[lane].size()) return;
    const int id = stage.queue[lane][stage.next[lane]];
    if (stage.pending[id] > 0) return;
    stage.occupied[lane] = true;
    // A lane that has stood still until now is a thread that sleeps: it takes a moment to run on.
    const bool slept = o_.cores > 0 && !plan_.stages[s].actions[id].waits.empty() && now_ > stage.free_since[lane];
    const double wake = slept ? hand_over_s(o_.busy, std::max(1.0, busy_ranks(s))) : 0;
    if (wake > 0)
      active_.push_back({.member = {s, id}, .remaining = wake, .waking = true});
    else
      begin(s, id);
  }

  void begin(int s, int id) {
    stages_[s].spans[id].start_s = now_;
    const int set = together_.set_of[s][id];
    Work work{.set = set, .member = {s, id}, .remaining = costs_.stages[s].action_s[id]};
    if (set >= 0) {
      const auto& members = together_.sets[set];
      if (++arrived_[set] < static_cast<int>(members.size())) return;
      for (const Member& m : members) work.remaining = std::max(work.remaining, costs_.stages[m.stage].action_s[m.action]);
    }
    for_members(work, [&](const Member& m) { count(m, +1); });
    active_.push_back(work);
    rates_stale_ = true;
  }

  template <class Visit>
  void for_members(const Work& work, Visit visit) {
    if (work.set < 0) {
      visit(work.member);
    } else {
      for (const Member& m : together_.sets[work.set]) visit(m);
    }
  }

  const Action& action(const Member& m) const { return plan_.stages[m.stage].actions[m.action]; }

  void count(const Member& m, int change) {
    if (costs_.stages[m.stage].action_s[m.action] <= 0) return;  // takes no time, so no core either
    (action(m).lane == Lane::compute ? stages_[m.stage].computing : stages_[m.stage].messages) += change;
  }

  void set_rates() {
    if (o_.cores <= 0 || !rates_stale_) return;
    rates_stale_ = false;
    slow_.assign(stages_.size(), 0);
    for (Work& work : active_) {
      if (work.waking) continue;
      double rate = std::numeric_limits<double>::infinity();
      for_members(work, [&](const Member& m) {
        double& slow = slow_[m.stage];
        if (slow == 0) slow = slow_down(o_.busy, busy_ranks(m.stage), o_.threads, o_.cores);
        const double share = action(m).lane == Lane::compute ? 1 : o_.communication_core_share;
        rate = std::min(rate, 1 / (1 - share + share * slow));
      });
      work.rate = rate;
    }
  }

  void advance() {
    set_rates();
    double step = std::numeric_limits<double>::infinity();
    for (const Work& work : active_) step = std::min(step, work.remaining / work.rate);
    now_ += step;
    // Equal ends are one event: rounding must not order them.
    const double tie = step * 1e-12 + now_ * 1e-15;
    done_.clear();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      active_[i].remaining -= step * active_[i].rate;
      if (active_[i].remaining <= tie * active_[i].rate)
        done_.push_back(active_[i]);
      else
        active_[kept++] = active_[i];
    }
    active_.resize(kept);
    for (const Work& work : done_)
      if (!work.waking) for_members(work, [&](const Member& m) { complete(m); });
    for (const Work& work : done_) {
      if (work.waking)
        begin(work.member.stage, work.member.action);
      else
        for_members(work, [&](const Member& m) { start_after(m); });
    }
    rates_stale_ = true;
  }

  void complete(const Member& m) {
    Stage& stage = stages_[m.stage];
    const int lane = static_cast<int>(action(m).lane);
    stage.spans[m.action].end_s = now_;
    stage.occupied[lane] = false;
    stage.free_since[lane] = now_;
    ++stage.next[lane];
    count(m, -1);
    for (int i = stage.first_successor[m.action]; i < stage.first_successor[m.action + 1]; ++i)
      --stage.pending[stage.successors[i]];
  }

  void start_after(const Member& m) {
    const Stage& stage = stages_[m.stage];
    try_start(m.stage, static_cast<int>(action(m).lane));
    for (int i = stage.first_successor[m.action]; i < stage.first_successor[m.action + 1]; ++i)
      try_start(m.stage, static_cast<int>(plan_.stages[m.stage].actions[stage.successors[i]].lane));
  }

  void check_done(int s) const {
    const Stage& stage = stages_[s];
    for (int lane = 0; lane < num_lanes; ++lane)
      TRIREME_CHECK(stage.next[lane] == stage.queue[lane].size(), "stage {}: \"{}\" can never go on", s,
                    plan::describe(plan_.stages[s].actions[stage.queue[lane][stage.next[lane]]]));
  }

  const plan::Plan& plan_;
  const plan::Costs& costs_;
  const SimulateOptions o_;
  Rendezvous together_;
  std::vector<int> arrived_;  // members of each set that have started
  std::vector<Stage> stages_;
  std::vector<Work> active_, done_;
  std::vector<double> slow_;
  bool rates_stale_ = true;
  double now_ = 0;
};

}  // namespace

SimResult simulate(const plan::Plan& plan, const plan::Costs& costs, const SimulateOptions& options) {
  return Execution(plan, costs, options).run();
}

std::vector<plan::RankTimeline> timelines(const plan::Plan& plan, const SimResult& result) {
  std::vector<plan::RankTimeline> out;
  for (int rank = 0; rank < plan.mesh.world(); ++rank) {
    const int stage = plan.mesh.pp_index(rank);
    out.push_back({.rank = rank, .spans = result.spans[stage], .step_s = result.step_s,
                   .peak_memory_bytes = result.memory.empty() ? 0 : result.memory[stage].peak_bytes});
  }
  return out;
}

}  // namespace trireme::sim
