#include "sim/message_cost.h"

#include <algorithm>

#include "plan/exchange_pattern.h"

namespace trireme::sim {

GroupPlace MessageCost::place_of(const std::vector<int>& members) const {
  GroupPlace out{.size = static_cast<double>(members.size()),
                 .stride = members.size() > 1 ? static_cast<double>(members[1] - members[0]) : 1};
  if (mesh_.ranks_of_host.empty()) return out;
  const std::vector<int> hosts = mesh_.hosts({members.front(), members.back()});  // the outermost
  const bool leaves = hosts.front() != hosts.back();
  if (leaves && !rates_.leaves_node(out)) out.stride = rates_.node().devices;
  return out;
}

GroupPlace MessageCost::place(const plan::GroupKind& kind, int stage) const {
  return place_of(mesh_.group(kind, mesh_.rank(stage, 0)));
}

Seconds MessageCost::all_reduce(const plan::GroupKind& kind, int stage, double bytes) const {
  const GroupPlace group = place(kind, stage);
  if (group.size == 1) return Seconds(0);
  return Seconds(rates_.collective_s(CollectiveKind::all_reduce, group, bytes));
}

Seconds MessageCost::between_stages(int stage, int peer_stage, double bytes) const {
  const int a = mesh_.rank(stage, 0), b = mesh_.rank(peer_stage, 0);
  return Seconds(
      rates_.collective_s(CollectiveKind::send, place_of({std::min(a, b), std::max(a, b)}), bytes));
}

PatternTime MessageCost::all_to_all(const plan::Pattern& pattern, int stage, const plan::RowCounts& counts,
                                    double row_bytes, bool by_links) const {
  const GroupPlace group = place(Axis::ep, stage);
  const int p = static_cast<int>(group.size);
  PatternTime out;
  if (p == 1) return out;
  const bool flat = pattern.name == "flat" || pattern.name == "flat transposed";
  if (flat && !by_links && rates_.has_node_all_to_all() && !rates_.leaves_node(group)) {
    const double rows = counts.each({.first = 0}, {.first = 0, .count = p}) - counts.each({.first = 0}, {.first = 0});
    // All that a rank sends, its own part included.
    out.seconds = rates_.collective_s(CollectiveKind::all_to_all, group, rows * row_bytes * p / (p - 1.0));
    out.phases = {{.name = pattern.phases.front().name, .end_s = out.seconds}};
    return out;
  }
  const plan::NodeShape shape = plan::node_shape(mesh_, Axis::ep, mesh_.rank(stage, 0));
  return pattern_time(pattern, shape, rates_.fabric(shape, group.stride), counts, row_bytes);
}

}  // namespace trireme::sim
