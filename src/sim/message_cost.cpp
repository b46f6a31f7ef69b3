#include "sim/message_cost.h"

#include <algorithm>
#include <array>
#include <string>


namespace trireme::sim {

using platform::Level;

MessageCost::MessageCost(const plan::Mesh& mesh, const platform::NetworkCurves& network, int ranks_per_host)
    : mesh_(mesh), network_(network), ranks_per_host_(ranks_per_host) {}

Level MessageCost::level(const plan::GroupKind& kind, int stage) const {
  const auto members = mesh_.group(kind, mesh_.rank(stage, 0));
  for (int rank : members)
    if (host(rank) != host(members.front())) return Level::network;
  return Level::host;
}

int MessageCost::size(const plan::GroupKind& kind, int stage) const {
  return static_cast<int>(mesh_.group(kind, mesh_.rank(stage, 0)).size());
}

Seconds MessageCost::all_reduce(const plan::GroupKind& kind, int stage, double bytes) const {
  const int members = size(kind, stage);
  if (members == 1) return Seconds(0);
  return network_.all_reduce(level(kind, stage), members, bytes);
}

Seconds MessageCost::between_stages(int stage, int peer_stage, double bytes) const {
  const bool inside = host(mesh_.rank(stage, 0)) == host(mesh_.rank(peer_stage, 0));
  return network_.message(inside ? Level::host : Level::network, bytes);
}

PatternTime MessageCost::all_to_all(const plan::Pattern& pattern, int stage, const plan::RowCounts& counts,
                                    double row_bytes, bool by_links) const {
  const auto members = mesh_.group(Axis::ep, mesh_.rank(stage, 0));
  const int p = static_cast<int>(members.size());
  PatternTime out;
  if (p == 1) return out;
  if (pattern.name == "flat" && !by_links && level(Axis::ep, stage) == Level::host) {
    const double to_others = (counts.each({.first = 0}, {.first = 0, .count = p}) - counts.each({.first = 0}, {.first = 0}));
    out.seconds = network_.all_to_all(Level::host, p, to_others * row_bytes).value;
    out.phases = {{.name = pattern.phases.front().name, .end_s = out.seconds}};
    return out;
  }
  if (!network_.spec().shared_links.empty()) {
    std::vector<std::string> hosts;
    for (const int rank : members) hosts.push_back(std::to_string(host(rank)));
    const auto shape = plan::NodeShape::of_hosts(hosts);
    return pattern_time(pattern, shape, fabric_of(network_.spec(), shape), counts, row_bytes);
  }
  for (const plan::Phase& phase : pattern.phases) {
    std::vector<std::array<double, 2>> busy(p, {0, 0});  // by member and level
    for (const plan::Transfer& t : phase.transfers) {
      if (t.from == t.to) continue;
      const Level level = host(members[t.from]) == host(members[t.to]) ? Level::host : Level::network;
      double rows = 0;
      for (const plan::Parcel& parcel : t.parcels) rows += plan::rows_of(parcel, pattern.flow, counts);
      busy[t.from][static_cast<int>(level)] += network_.message(level, rows * row_bytes).value;
    }
    double longest = 0, begin = 0;
    for (const auto& b : busy) longest = std::max(longest, std::max(b[0], b[1]));
    for (const int before : phase.after) begin = std::max(begin, out.phases[before].end_s);
    out.phases.push_back({.name = phase.name, .begin_s = begin, .end_s = begin + longest});
    out.seconds = std::max(out.seconds, begin + longest);
  }
  return out;
}

Seconds MessageCost::all_to_all(const plan::Pattern& pattern, int stage, double block_bytes) const {
  const int p = size(Axis::ep, stage);
  const plan::BlockTable blocks(p, std::vector<double>(static_cast<std::size_t>(p) * p, 1));
  return Seconds(all_to_all(pattern, stage, blocks, block_bytes).seconds);
}

}  // namespace trireme::sim
