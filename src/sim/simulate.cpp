#include "sim/simulate.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/errors.h"
#include "base/rng.h"
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
      : plan_(plan), costs_(costs), o_(options), noise_key_(stream_key(o_.seed, "noise")), together_(o_.every_rank ? match_ranks(plan) : match(plan)),
        lists_(o_.every_rank ? static_cast<std::size_t>(plan.mesh.world()) : plan.stages.size()) {
    TRIREME_CHECK(costs.stages.size() == plan.stages.size(), "costs of {} stages for {}", costs.stages.size(), plan.stages.size());
    arrived_.assign(together_.sets.size(), 0);
    for (std::size_t i = 0; i < lists_.size(); ++i) prepare(static_cast<int>(i));
    count_neighbours();
  }

  SimResult run() {
    for (std::size_t i = 0; i < lists_.size(); ++i)
      for (int lane = 0; lane < num_lanes; ++lane) try_start(static_cast<int>(i), lane);
    while (!active_.empty()) advance();
    SimResult out{.every_rank = o_.every_rank};
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      check_done(static_cast<int>(i));
      const int s = lists_[i].stage;
      for (const plan::Span& span : lists_[i].spans) out.step_s = std::max(out.step_s, span.end_s);
      if (o_.memory) out.memory.push_back(plan::memory_curve(plan_.stages[s], costs_.stages[s], lists_[i].spans));
      out.spans.push_back(std::move(lists_[i].spans));
    }
    return out;
  }

 private:
  struct List {
    int stage = 0;
    std::vector<double> length;                     // of each action, alone
    std::array<std::vector<int>, num_lanes> queue;  // action ids
    std::array<std::size_t, num_lanes> next{};      // place in the queue
    std::array<bool, num_lanes> occupied{};         // runs, wakes or waits for its partner
    std::array<double, num_lanes> free_since{};
    std::vector<int> pending;                       // waits that are not complete
    std::vector<int> first_successor;               // into successors; one more than actions
    std::vector<int> successors;
    std::vector<plan::Span> spans;
    int host = 0;                                   // with every rank: which host is this one's
    std::vector<std::pair<int, int>> neighbours;    // else (list, how many ranks of it are on the host of its first rank)
    int computing = 0;                              // 1 while its compute lane works
    int messages = 0;                               // lanes whose message is on its way
  };

  void prepare(int l) {
    List& stage = lists_[l];
    const int s = stage.stage = o_.every_rank ? plan_.mesh.pp_index(l) : l;
    const auto& actions = plan_.stages[s].actions;
    TRIREME_CHECK(costs_.stages[s].action_s.size() == actions.size(), "stage {}: {} prices for {} actions", s,
                  costs_.stages[s].action_s.size(), actions.size());
    stage.length = costs_.stages[s].action_s;
    if (!o_.scale.empty())
      for (std::size_t i = 0; i < actions.size(); ++i) stage.length[i] *= o_.scale[l][i];
    if (o_.noise)
      for (const Action& a : actions)
        if (a.lane == Lane::compute) stage.length[a.id] *= noise(l, a.id);
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

  // A factor of the table's distribution.
  double noise(int list, int action) const {
    const auto& factors = o_.noise->factor;
    if (factors.empty()) return 1;
    const double at = random_uniform(noise_key_, static_cast<std::uint64_t>(list) << 32 | static_cast<std::uint32_t>(action)) *
                      static_cast<double>(factors.size() - 1);
    const auto low = std::min(static_cast<std::size_t>(at), factors.size() - 1), high = std::min(low + 1, factors.size() - 1);
    return factors[low] + (factors[high] - factors[low]) * (at - static_cast<double>(low));
  }

  // How many ranks of each list run on the host of a list's first rank.
  void count_neighbours() {
    if (o_.cores <= 0) return;
    const int per_host = o_.ranks_per_host > 0 ? o_.ranks_per_host : plan_.mesh.world();
    if (o_.every_rank) {
      for (std::size_t s = 0; s < lists_.size(); ++s) lists_[s].host = static_cast<int>(s) / per_host;
      hosts_.resize(lists_.empty() ? 0 : lists_.back().host + 1);
      return;
    }
    for (std::size_t s = 0; s < lists_.size(); ++s) {
      const int first = plan_.mesh.rank(static_cast<int>(s), 0) / per_host * per_host;
      std::vector<int> ranks(lists_.size());
      for (int rank = first; rank < std::min(first + per_host, plan_.mesh.world()); ++rank) ++ranks[plan_.mesh.pp_index(rank)];
      for (std::size_t t = 0; t < lists_.size(); ++t)
        if (ranks[t] > 0) lists_[s].neighbours.push_back({static_cast<int>(t), ranks[t]});
    }
  }

  double busy_ranks(int s) const {
    double compute = 0, messages = 0;
    if (!hosts_.empty()) compute = hosts_[lists_[s].host].computing, messages = hosts_[lists_[s].host].messages;
    for (const auto& [t, ranks] : lists_[s].neighbours) {
      compute += lists_[t].computing * ranks;
      messages += lists_[t].messages * ranks;
    }
    return compute + o_.communication_core_share * messages / std::max(1, o_.threads);
  }

  void try_start(int s, int lane) {
    List& stage = lists_[s];
    if (stage.occupied[lane] || stage.next[lane] == stage.queue[lane].size()) return;
    const int id = stage.queue[lane][stage.next[lane]];
    if (stage.pending[id] > 0) return;
    stage.occupied[lane] = true;
    // A lane that has stood still until now is a thread that sleeps: it takes a moment to run on.
    const bool slept = o_.cores > 0 && !action(s, id).waits.empty() && now_ > stage.free_since[lane];
    const double wake = slept ? hand_over_s(o_.busy, std::max(1.0, busy_ranks(s))) : 0;
    if (wake > 0)
      active_.push_back({.member = {s, id}, .remaining = wake, .waking = true});
    else
      begin(s, id);
  }

  void begin(int s, int id) {
    lists_[s].spans[id].start_s = now_;
    const int set = together_.set_of[s][id];
    Work work{.set = set, .member = {s, id}, .remaining = lists_[s].length[id]};
    if (set >= 0) {
      const auto& members = together_.sets[set];
      if (++arrived_[set] < static_cast<int>(members.size())) return;
      for (const Member& m : members) work.remaining = std::max(work.remaining, lists_[m.list].length[m.action]);
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

  const Action& action(const Member& m) const { return action(m.list, m.action); }
  const Action& action(int list, int id) const { return plan_.stages[lists_[list].stage].actions[id]; }

  void count(const Member& m, int change) {
    if (lists_[m.list].length[m.action] <= 0) return;  // takes no time, so no core either
    List& list = lists_[m.list];
    const bool computes = action(m).lane == Lane::compute;
    (computes ? list.computing : list.messages) += change;
    if (!hosts_.empty()) (computes ? hosts_[list.host].computing : hosts_[list.host].messages) += change;
  }

  void set_rates() {
    if (o_.cores <= 0 || !rates_stale_) return;
    rates_stale_ = false;
    slow_.assign(lists_.size(), 0);
    for (Work& work : active_) {
      if (work.waking) continue;
      double rate = std::numeric_limits<double>::infinity();
      for_members(work, [&](const Member& m) {
        double& slow = slow_[m.list];
        if (slow == 0) slow = slow_down(o_.busy, busy_ranks(m.list), o_.threads, o_.cores);
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
        begin(work.member.list, work.member.action);
      else
        for_members(work, [&](const Member& m) { start_after(m); });
    }
    rates_stale_ = true;
  }

  void complete(const Member& m) {
    List& stage = lists_[m.list];
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
    const List& stage = lists_[m.list];
    try_start(m.list, static_cast<int>(action(m).lane));
    for (int i = stage.first_successor[m.action]; i < stage.first_successor[m.action + 1]; ++i)
      try_start(m.list, static_cast<int>(action(m.list, stage.successors[i]).lane));
  }

  void check_done(int s) const {
    const List& list = lists_[s];
    for (int lane = 0; lane < num_lanes; ++lane)
      TRIREME_CHECK(list.next[lane] == list.queue[lane].size(), "stage {}: \"{}\" can never go on", list.stage,
                    plan::describe(action(s, list.queue[lane][list.next[lane]])));
  }

  const plan::Plan& plan_;
  const plan::Costs& costs_;
  const SimulateOptions o_;
  const std::uint64_t noise_key_;
  Rendezvous together_;
  std::vector<int> arrived_;  // members of each set that have started
  std::vector<List> lists_;
  struct Host {
    int computing = 0, messages = 0;  // sums of its lists
  };
  std::vector<Host> hosts_;  // with every rank: a sum for all, where adding up neighbours would take their square
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
    const int list = result.every_rank ? rank : stage;
    out.push_back({.rank = rank, .spans = result.spans[list], .step_s = result.step_s,
                   .peak_memory_bytes = result.memory.empty() ? 0 : result.memory[list].peak_bytes});
  }
  return out;
}

}  // namespace trireme::sim
