#include "sim/estimate/collective_time.h"

#include <algorithm>
#include <cmath>

namespace trireme::sim {

GroupPlace place_of(const plan::LayoutSpec& l, Axis axis) {
  const double tp = l.tp, cp = l.cp, dp = std::max(1, l.dp), ep = l.ep, etp = l.etp;
  switch (axis) {
    case Axis::tp:
      return {tp, 1};
    case Axis::cp:
      return {cp, tp};
    case Axis::dp:
      return {dp * cp, tp};
    case Axis::etp:
      return {etp, 1};
    case Axis::ep:
      return {ep, etp};
    case Axis::edp:
      return {std::max(1.0, dp * cp * tp / (ep * etp)), ep * etp};
    case Axis::pp:
      return {double(l.pp), dp * cp * tp};
  }
  return {};
}

double members_of(const MachineLevel& level, const GroupPlace& g) {
  return std::clamp(level.devices / g.stride, 1.0, g.size);
}

// On a mesh only the links to its peers in the group.
double bandwidth_of(const MachineLevel& level, const GroupPlace& g) {
  if (!level.mesh) return level.bytes_per_s;
  const double peers = members_of(level, g) - 1;
  return level.bytes_per_s * std::min(1.0, std::max(1.0, peers) / (level.devices - 1));
}

double latency_s(const MachineLevel& level, double peers) {
  constexpr double in_flight = 8;
  return level.latency_s * std::max(std::log2(peers + 1), peers / in_flight);
}

double ring_gather_s(const Machine& m, const GroupPlace& g, double bytes) {
  if (g.size <= 1) return 0;
  const double moved = bytes * (g.size - 1) / g.size;
  double inner = 1, time = 0, latency = 0;
  for (int i = 0; i < m.num_levels && inner < g.size; ++i) {
    const double here = members_of(m.levels[i], g);
    if (here > inner) {
      // All members of a unit of the level before carry the ring out of it together.
      time = std::max(time, moved / (bandwidth_of(m.levels[i], g) * inner));
      // Within the first level a step is a flag in a peer's memory; across it a message. Trees keep long rings from
      // paying a step for each member: at most 32.
      const double steps = std::min(32.0, here / inner - 1);
      latency += steps * m.levels[i].latency_s * (i == 0 ? 0.5 : 1);
      inner = here;
    }
  }
  return time + latency;
}

double all_reduce_s(const Machine& m, const GroupPlace& g, double bytes) {
  return 2 * ring_gather_s(m, g, bytes);
}

double all_to_all_s(const Machine& m, const GroupPlace& g, double bytes) {
  if (g.size <= 1) return 0;
  double inner = 1, time = 0, latency = 0;
  for (int i = 0; i < m.num_levels && inner < g.size; ++i) {
    const double here = members_of(m.levels[i], g);
    if (here > inner) {
      time = std::max(time, bytes * (g.size - inner) / g.size / bandwidth_of(m.levels[i], g));
      // Beyond the first level each peer is a message of its own; within it all lie in one another's reach.
      latency = std::max(latency, i == 0 ? m.levels[i].latency_s * std::log2(here) : latency_s(m.levels[i], here - 1));
      inner = here;
    }
  }
  return time + latency;
}

double send_s(const Machine& m, double distance, double bytes) {
  int level = 0;
  while (level + 1 < m.num_levels && m.levels[level].devices <= distance) ++level;
  const double peers = m.levels[level].mesh ? m.levels[level].devices - 1 : 1;
  return m.levels[level].latency_s + bytes * peers / m.levels[level].bytes_per_s;
}

}  // namespace trireme::sim
