#include "sim/message_cost.h"

#include <algorithm>
#include <array>
#include <string>

#include "plan/all_to_all/row_counts.h"
#include "sim/network/pattern_time.h"

namespace trireme::sim {

using platform::Level;

MessageCost::MessageCost(const plan::Mesh& mesh, const platform::NetworkCurves& network, int ranks_per_host)
    : mesh_(mesh), network_(network), ranks_per_host_(ranks_per_host) {}

Level MessageCost::level(plan::Axis axis, int stage) const {
  const auto members = mesh_.group(axis, mesh_.rank(stage, 0));
  for (int rank : members)
    if (host(rank) != host(members.front())) return Level::network;
  return Level::host;
}

int MessageCost::size(plan::Axis axis, int stage) const {
  return static_cast<int>(mesh_.group(axis, mesh_.rank(stage, 0)).size());
}

Seconds MessageCost::all_reduce(plan::Axis axis, int stage, double bytes) const {
  const int members = size(axis, stage);
  if (members == 1) return Seconds(0);
  return network_.all_reduce(level(axis, stage), members, bytes);
}

Seconds MessageCost::between_stages(int stage, int peer_stage, double bytes) const {
  const bool inside = host(mesh_.rank(stage, 0)) == host(mesh_.rank(peer_stage, 0));
  return network_.message(inside ? Level::host : Level::network, bytes);
}

Seconds MessageCost::all_to_all(const plan::Pattern& pattern, int stage, double block_bytes) const {
  const auto members = mesh_.group(plan::Axis::ep, mesh_.rank(stage, 0));
  const int p = static_cast<int>(members.size());
  if (p == 1) return Seconds(0);
  if (pattern.name == "flat" && level(plan::Axis::ep, stage) == Level::host)
    return network_.all_to_all(Level::host, p, block_bytes * (p - 1));
  if (!network_.spec().shared_links.empty()) {
    std::vector<std::string> hosts;
    for (const int rank : members) hosts.push_back(std::to_string(host(rank)));
    const auto shape = plan::NodeShape::of_hosts(hosts);
    const plan::BlockTable blocks(p, std::vector<double>(static_cast<std::size_t>(p * p), 1));
    return Seconds(pattern_time(pattern, shape, fabric_of(network_.spec(), shape), blocks, block_bytes).seconds);
  }
  std::vector<double> end;
  for (const plan::Phase& phase : pattern.phases) {
    std::vector<std::array<double, 2>> busy(p, {0, 0});  // by member and level
    for (const plan::Transfer& t : phase.transfers) {
      if (t.from == t.to) continue;
      const Level level = host(members[t.from]) == host(members[t.to]) ? Level::host : Level::network;
      const double seconds = network_.message(level, block_bytes * static_cast<double>(num_blocks(t))).value;
      busy[t.from][static_cast<int>(level)] += seconds;
    }
    double longest = 0;
    for (const auto& b : busy) longest = std::max(longest, std::max(b[0], b[1]));
    double begin = 0;
    for (const int before : phase.after) begin = std::max(begin, end[before]);
    end.push_back(begin + longest);
  }
  return Seconds(end.empty() ? 0 : *std::max_element(end.begin(), end.end()));
}

}  // namespace trireme::sim
