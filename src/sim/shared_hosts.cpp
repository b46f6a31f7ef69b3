#include "sim/shared_hosts.h"

#include <algorithm>
#include <array>
#include <limits>

#include "sim/core_sharing.h"

namespace trireme::sim {

using plan::Action;
using plan::Lane;
using plan::num_lanes;

using plan::Member;
using plan::Rendezvous;

namespace {

// Something that takes time: an action with those that run with it, or the waking of a lane before its action.
struct Running {
  int set = -1;       // of a rendezvous, -1: one action alone
  Member member;      // the action, or any of the set
  double remaining = 0;
  double rate = 1;
  bool waking = false;
};

// How far a list has come.
struct Progress {
  std::array<int, num_lanes> next{};              // action ids; -1: the lane is done
  std::array<bool, num_lanes> occupied{};         // runs, wakes or waits for its partner
  std::array<double, num_lanes> free_since{};
  int borrowed = -1;                              // the message that the compute lane's thread executes itself
  std::vector<int> pending;                       // waits that are not complete, by action
  std::vector<plan::Span> spans;
  int host = 0;                                   // with every rank: which host is this one's
  std::vector<std::pair<int, int>> neighbours;    // else (list, how many ranks of it are on the host of its first rank)
  int computing = 0;                              // 1 while its compute lane works
  int messages = 0;                               // lanes whose message is on its way
};

class SharedHosts {
 public:
  SharedHosts(const plan::Mesh& mesh, const std::vector<ActionList>& lists, const Rendezvous& together,
              const SimulateOptions& options)
      : lists_(lists), together_(together), o_(options), arrived_(together.sets.size(), 0), progress_(lists.size()) {
    for (std::size_t l = 0; l < lists.size(); ++l) {
      Progress& at = progress_[l];
      at.next = lists[l].first_in_lane;
      at.spans.resize(lists[l].actions->size());
      for (const Action& a : *lists[l].actions) at.pending.push_back(static_cast<int>(a.waits.size()));
    }
    count_neighbours(mesh);
  }

  std::vector<std::vector<plan::Span>> run() {
    for (std::size_t l = 0; l < lists_.size(); ++l)
      for (int lane = 0; lane < num_lanes; ++lane) try_start(static_cast<int>(l), lane);
    while (!active_.empty()) advance();
    std::vector<std::vector<plan::Span>> out;
    for (std::size_t l = 0; l < lists_.size(); ++l) {
      for (const int next : progress_[l].next)
        if (next >= 0) check_completed(lists_[l], next, false);
      out.push_back(std::move(progress_[l].spans));
    }
    return out;
  }

 private:
  // How many ranks of each list run on the host of a list's first rank.
  void count_neighbours(const plan::Mesh& mesh) {
    if (o_.cores <= 0) return;
    const int per_host = o_.ranks_per_host > 0 ? o_.ranks_per_host : mesh.world();
    const int num_lists = static_cast<int>(lists_.size());
    if (o_.every_rank) {
      for (int l = 0; l < num_lists; ++l) progress_[l].host = l / per_host;
      hosts_.resize(lists_.empty() ? 0 : progress_.back().host + 1);
      return;
    }
    for (int s = 0; s < num_lists; ++s) {
      const int first = mesh.rank(s, 0) / per_host * per_host;
      std::vector<int> ranks(static_cast<std::size_t>(num_lists));
      for (int rank = first; rank < std::min(first + per_host, mesh.world()); ++rank) ++ranks[mesh.pp_index(rank)];
      for (int t = 0; t < num_lists; ++t)
        if (ranks[t] > 0) progress_[s].neighbours.push_back({t, ranks[t]});
    }
  }

  double busy_ranks(int l) const {
    double compute = 0, messages = 0;
    if (!hosts_.empty()) compute = hosts_[progress_[l].host].computing, messages = hosts_[progress_[l].host].messages;
    for (const auto& [other, ranks] : progress_[l].neighbours) {
      compute += progress_[other].computing * ranks;
      messages += progress_[other].messages * ranks;
    }
    return compute + o_.communication_core_share * messages / std::max(1, o_.threads);
  }

  void try_start(int l, int lane) {
    Progress& at = progress_[l];
    const int id = at.next[lane];
    if (at.occupied[lane] || id < 0 || at.pending[id] > 0) return;
    at.occupied[lane] = true;
    // A lane that has stood still until now is a thread that sleeps: it takes a moment to run on.
    bool slept = !action({l, id}).waits.empty() && now_ > at.free_since[lane];
    if (slept && compute_thread_takes({l, id}, lane)) {
      at.borrowed = id;
      slept = false;
    }
    const double wake = slept ? hand_over_s(o_.busy, std::max(1.0, busy_ranks(l))) : 0;
    if (wake > 0)
      active_.push_back({.member = {l, id}, .remaining = wake, .waking = true});
    else
      begin({l, id});
  }

  // As the executor has it: where the compute lane would only wait for one action that an idle lane could start now, its
  // thread, which is awake, executes it and goes on when it is done: no thread hands over to another.
  bool compute_thread_takes(const Member& m, int lane) const {
    constexpr int compute = static_cast<int>(Lane::compute);
    const Progress& at = progress_[m.list];
    const int head = at.next[compute];
    if (lane == compute || head < 0 || at.occupied[compute] || at.borrowed >= 0 || now_ > at.free_since[compute] || at.pending[head] != 1)
      return false;
    const auto& waits = action({m.list, head}).waits;
    return std::find(waits.begin(), waits.end(), m.action) != waits.end();
  }

  void begin(Member m) {
    progress_[m.list].spans[m.action].start_s = now_;
    const int set = together_.set_of[m.list][m.action];
    Running running{.set = set, .member = m, .remaining = length(m)};
    if (set >= 0) {
      const auto& members = together_.sets[set];
      if (++arrived_[set] < static_cast<int>(members.size())) return;
      for (const Member& other : members) running.remaining = std::max(running.remaining, length(other));
    }
    for_members(running, [&](const Member& other) { count(other, +1); });
    active_.push_back(running);
    rates_stale_ = true;
  }

  template <class Visit>
  void for_members(const Running& running, Visit visit) {
    if (running.set < 0) {
      visit(running.member);
    } else {
      for (const Member& m : together_.sets[running.set]) visit(m);
    }
  }

  const Action& action(const Member& m) const { return (*lists_[m.list].actions)[m.action]; }
  double length(const Member& m) const { return lists_[m.list].length[m.action]; }

  void count(const Member& m, int change) {
    if (length(m) <= 0) return;  // takes no time, so no core either
    Progress& at = progress_[m.list];
    const bool computes = action(m).lane == Lane::compute;
    if (computes && o_.compute_waits) return;
    (computes ? at.computing : at.messages) += change;
    if (!hosts_.empty()) (computes ? hosts_[at.host].computing : hosts_[at.host].messages) += change;
  }

  void set_rates() {
    if (!rates_stale_) return;
    rates_stale_ = false;
    if (o_.cores <= 0) {
      for (Running& running : active_)
        if (action(running.member).lane == Lane::compute)
          running.rate = progress_[running.member.list].messages > 0 && !o_.compute_waits ? o_.overlap : 1;
      return;
    }
    slow_.assign(lists_.size(), 0);
    for (Running& running : active_) {
      if (running.waking) continue;
      double rate = std::numeric_limits<double>::infinity();
      for_members(running, [&](const Member& m) {
        double& slow = slow_[m.list];
        if (slow == 0) slow = slow_down(o_.busy, busy_ranks(m.list), o_.threads, o_.cores);
        const bool computes = action(m).lane == Lane::compute;
        const double share = !computes ? o_.communication_core_share : o_.compute_waits ? 0 : 1;
        rate = std::min(rate, 1 / (1 - share + share * slow));
      });
      running.rate = rate;
    }
  }

  void advance() {
    set_rates();
    double step = std::numeric_limits<double>::infinity();
    for (const Running& running : active_) step = std::min(step, running.remaining / running.rate);
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
    for (const Running& running : done_)
      if (!running.waking) for_members(running, [&](const Member& m) { complete(m); });
    for (const Running& running : done_) {
      if (running.waking)
        begin(running.member);
      else
        for_members(running, [&](const Member& m) { start_after(m); });
    }
    rates_stale_ = true;
  }

  void complete(const Member& m) {
    Progress& at = progress_[m.list];
    const ActionList& list = lists_[m.list];
    const int lane = static_cast<int>(action(m).lane);
    at.spans[m.action].end_s = now_;
    at.occupied[lane] = false;
    at.free_since[lane] = now_;
    if (at.borrowed == m.action) {
      at.borrowed = -1;
      at.free_since[static_cast<int>(Lane::compute)] = now_;
    }
    at.next[lane] = list.next_in_lane[m.action];
    count(m, -1);
    for (int i = list.first_successor[m.action]; i < list.first_successor[m.action + 1]; ++i)
      --at.pending[list.successors[i]];
  }

  void start_after(const Member& m) {
    const ActionList& list = lists_[m.list];
    try_start(m.list, static_cast<int>(action(m).lane));
    for (int i = list.first_successor[m.action]; i < list.first_successor[m.action + 1]; ++i)
      try_start(m.list, static_cast<int>(action({m.list, list.successors[i]}).lane));
  }

  const std::vector<ActionList>& lists_;
  const Rendezvous& together_;
  const SimulateOptions& o_;
  std::vector<int> arrived_;  // members of each set that have started
  std::vector<Progress> progress_;
  struct Host {
    int computing = 0, messages = 0;  // sums of its lists
  };
  std::vector<Host> hosts_;  // with every rank: a sum for all, where adding up neighbours would take their square
  std::vector<Running> active_, done_;
  std::vector<double> slow_;
  bool rates_stale_ = true;
  double now_ = 0;
};

}  // namespace

std::vector<std::vector<plan::Span>> run_on_shared_hosts(const plan::Mesh& mesh, const std::vector<ActionList>& lists,
                                                         const Rendezvous& together, const SimulateOptions& options) {
  return SharedHosts(mesh, lists, together, options).run();
}

}  // namespace trireme::sim
