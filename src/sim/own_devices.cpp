#include "sim/own_devices.h"

#include <algorithm>

namespace trireme::sim {

using plan::Member;
using plan::Rendezvous;

namespace {

class OwnDevices {
 public:
  OwnDevices(const std::vector<ActionList>& lists, const Rendezvous& together) : lists_(lists), together_(together) {
    missing_members_.reserve(together.sets.size());
    for (const auto& set : together.sets) missing_members_.push_back(static_cast<int>(set.size()));
    spans_.resize(lists.size());
    missing_.resize(lists.size());
    for (std::size_t l = 0; l < lists.size(); ++l) {
      const auto& actions = *lists[l].actions;
      spans_[l].resize(actions.size());
      missing_[l].resize(actions.size());
      for (const plan::Action& a : actions) missing_[l][a.id] = static_cast<int>(a.waits.size()) + 1;
    }
  }

  std::vector<std::vector<plan::Span>> run() {
    for (std::size_t l = 0; l < lists_.size(); ++l)
      for (const int first : lists_[l].first_in_lane)
        if (first >= 0) release({static_cast<int>(l), first}, 0);
    while (!ended_.empty()) {
      const Member m = ended_.back();
      ended_.pop_back();
      const ActionList& list = lists_[m.list];
      const double end = spans_[m.list][m.action].end_s;
      if (const int next = list.next_in_lane[m.action]; next >= 0) release({m.list, next}, end);
      for (int i = list.first_successor[m.action]; i < list.first_successor[m.action + 1]; ++i)
        release({m.list, list.successors[i]}, end);
    }
    for (std::size_t l = 0; l < lists_.size(); ++l)
      for (int action : lists_[l].first_in_lane)
        for (; action >= 0; action = lists_[l].next_in_lane[action])
          check_completed(lists_[l], action, complete({static_cast<int>(l), action}));
    return std::move(spans_);
  }

 private:
  // One thing less that the action waits for (its lane counts as one), which was there at `at`.
  void release(Member m, double at) {
    plan::Span& span = spans_[m.list][m.action];
    span.start_s = std::max(span.start_s, at);
    if (--missing_[m.list][m.action] > 0) return;
    const int set = together_.set_of[m.list][m.action];
    if (set < 0) return end(m, span.start_s + lists_[m.list].length[m.action]);
    if (--missing_members_[set] > 0) return;
    double start = 0, length = 0;
    for (const Member& other : together_.sets[set]) {
      start = std::max(start, spans_[other.list][other.action].start_s);
      length = std::max(length, lists_[other.list].length[other.action]);
    }
    for (const Member& other : together_.sets[set]) end(other, start + length);
  }

  void end(Member m, double at) {
    spans_[m.list][m.action].end_s = at;
    ended_.push_back(m);
  }

  bool complete(Member m) const {
    const int set = together_.set_of[m.list][m.action];
    return missing_[m.list][m.action] == 0 && (set < 0 || missing_members_[set] == 0);
  }

  const std::vector<ActionList>& lists_;
  const Rendezvous& together_;
  std::vector<std::vector<plan::Span>> spans_;
  std::vector<std::vector<int>> missing_;  // by list and action: waits that are not complete, and the lane
  std::vector<int> missing_members_;       // by set
  std::vector<Member> ended_;              // whose successors have not been told
};

}  // namespace

std::vector<std::vector<plan::Span>> run_on_own_devices(const std::vector<ActionList>& lists, const Rendezvous& together) {
  return OwnDevices(lists, together).run();
}

}  // namespace trireme::sim
