#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/match_stages.h"
#include "plan/rendezvous.h"

namespace trireme::plan {

namespace {

// Every action has to be released by what it waits for and by its lane, and by its partners where it has some.
class Execution {
 public:
  Execution(const Plan& plan, const Rendezvous& together) : plan_(plan), together_(together) {
    lists_.resize(plan.stages.size());
    for (std::size_t l = 0; l < lists_.size(); ++l) link(plan.stages[l].actions, lists_[l]);
    for (const auto& set : together.sets) absent_.push_back(static_cast<int>(set.size()));
  }

  // Empty where every action completes; else the heads of lanes that wait for one another, in a circle.
  std::vector<Member> circle() {
    for (std::size_t l = 0; l < lists_.size(); ++l)
      for (const int first : lists_[l].head)
        if (first >= 0) release({static_cast<int>(l), first});
    while (!complete_.empty()) {
      const Member m = complete_.back();
      complete_.pop_back();
      List& list = lists_[m.list];
      const Action& a = action(m);
      list.done[m.action] = true;
      list.head[static_cast<int>(a.lane)] = list.next[m.action];
      if (list.next[m.action] >= 0) release({m.list, list.next[m.action]});
      for (int i = list.first_successor[m.action]; i < list.first_successor[m.action + 1]; ++i)
        release({m.list, list.successors[i]});
    }
    std::vector<Member> path;
    for (std::size_t l = 0; l < lists_.size() && path.empty(); ++l)
      for (const int head : lists_[l].head)
        if (head >= 0) {
          path.push_back({static_cast<int>(l), head});
          break;
        }
    if (path.empty()) return {};
    while (true) {
      const Member before = awaited(path.back());
      const Member in_the_way = {before.list, lists_[before.list].head[static_cast<int>(action(before).lane)]};
      const auto seen = std::find(path.begin(), path.end(), in_the_way);
      if (seen != path.end()) return {seen, path.end()};
      path.push_back(in_the_way);
    }
  }

  // What the head of a lane waits for: an action of its stage that is not complete, else a partner that has not come.
  Member awaited(const Member& m) const {
    for (const int wait : action(m).waits)
      if (!lists_[m.list].done[wait]) return {m.list, wait};
    for (const Member& other : together_.sets[together_.set_of[m.list][m.action]])
      if (lists_[other.list].missing[other.action] > 0) return other;
    return m;  // can't be: it would have been complete
  }

  std::string told(const Member& m) const { return fmt::format("stage {}'s {}", m.list, describe(action(m))); }

 private:
  struct List {
    std::array<int, num_lanes> head;  // the first action of each lane that is not complete; -1: none
    std::vector<int> next, first_successor, successors, missing;
    std::vector<bool> done;
  };

  static void link(const std::vector<Action>& actions, List& list) {
    const std::size_t n = actions.size();
    list.head.fill(-1);
    list.next.assign(n, -1);
    list.first_successor.assign(n + 1, 0);
    list.missing.resize(n);
    list.done.resize(n);
    std::array<int, num_lanes> last;
    last.fill(-1);
    for (const Action& a : actions) {
      int& before = last[static_cast<int>(a.lane)];
      (before < 0 ? list.head[static_cast<int>(a.lane)] : list.next[before]) = a.id;
      before = a.id;
      list.missing[a.id] = static_cast<int>(a.waits.size()) + 1;
      for (const int wait : a.waits) ++list.first_successor[wait + 1];
    }
    for (std::size_t i = 0; i < n; ++i) list.first_successor[i + 1] += list.first_successor[i];
    list.successors.resize(list.first_successor.back());
    std::vector<int> at(list.first_successor.begin(), list.first_successor.end() - 1);
    for (const Action& a : actions)
      for (const int wait : a.waits) list.successors[at[wait]++] = a.id;
  }

  const Action& action(const Member& m) const { return plan_.stages[m.list].actions[m.action]; }

  void release(const Member& m) {
    if (--lists_[m.list].missing[m.action] > 0) return;
    const int set = together_.set_of[m.list][m.action];
    if (set < 0) return complete_.push_back(m);
    if (--absent_[set] > 0) return;
    complete_.insert(complete_.end(), together_.sets[set].begin(), together_.sets[set].end());
  }

  const Plan& plan_;
  const Rendezvous& together_;
  std::vector<List> lists_;
  std::vector<int> absent_;       // by set: members that have not come
  std::vector<Member> complete_;  // whose successors have not been released
};

}  // namespace

std::string why_stuck(const Plan& plan) {
  Rendezvous together;
  if (std::string alone = match_stages(plan, together); !alone.empty()) return alone;
  Execution execution(plan, together);
  const std::vector<Member> circle = execution.circle();
  if (circle.empty()) return "";
  std::string out = execution.told(circle.front());
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const Member awaited = execution.awaited(circle[i]), head = circle[(i + 1) % circle.size()];
    out += fmt::format("{} waits for {}", i == 0 ? "" : ", which", execution.told(awaited));
    if (awaited != head) out += fmt::format(" behind {}", execution.told(head));
  }
  return "actions wait for one another: " + out;
}

}  // namespace trireme::plan
