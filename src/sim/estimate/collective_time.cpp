#include "sim/estimate/collective_time.h"

#include <algorithm>
#include <cmath>

namespace trireme::sim {

GroupPlace place_of(const plan::LayoutSpec& l, Axis axis) {
  const double tp = l.tp, cp = l.cp, dp = std::max(1, l.dp), ep = l.ep, etp = l.etp;
  switch (axis) {
    case Axis::tensor:
      return {tp, 1};
    case Axis::context:
      return {cp, tp};
    case Axis::data:
      return {dp * cp, tp};
    case Axis::expert_tensor:
      return {etp, 1};
    case Axis::expert:
      return {ep, etp};
    case Axis::expert_data:
      return {std::max(1.0, dp * cp * tp / (ep * etp)), ep * etp};
    case Axis::pipeline:
      return {double(l.pp), dp * cp * tp};
  }
  return {};
}

namespace {

// Members of the group in one unit of the level.
double members(const MachineLevel& level, const GroupPlace& g) {
  return std::clamp(level.devices / g.stride, 1.0, g.size);
}

// What a device of the group reaches on this level: on a mesh only the links to its peers in the group.
double bandwidth(const MachineLevel& level, const GroupPlace& g) {
  if (!level.mesh) return level.bytes_per_s;
  const double peers = members(level, g) - 1;
  return level.bytes_per_s * std::min(1.0, std::max(1.0, peers) / (level.devices - 1));
}

}  // namespace

double ring_gather_s(const Machine& m, const GroupPlace& g, double bytes) {
  if (g.size <= 1) return 0;
  const double moved = bytes * (g.size - 1) / g.size;
  double inner = 1, time = 0, latency = 0;
  for (int i = 0; i < m.num_levels && inner < g.size; ++i) {
    const double here = members(m.levels[i], g);
    if (here > inner) {
      // All members of a unit of the level before carry the ring out of it together.
      time = std::max(time, moved / (bandwidth(m.levels[i], g) * inner));
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
    const double here = members(m.levels[i], g);
    if (here > inner) {
      time = std::max(time, bytes * (g.size - inner) / g.size / bandwidth(m.levels[i], g));
      latency = std::max(latency, m.levels[i].latency_s * std::log2(here));
      inner = here;
    }
  }
  return time + latency;
}

double expected_units(double units, double top_k) {
  return units * (1 - std::pow(1 - 1 / units, top_k));
}

double dedup_exchange_s(const Machine& m, const GroupPlace& g, double bytes, double top_k, double max_units) {
  if (g.size <= 1) return 0;
  const double inner = members(m.levels[0], g);
  // A row goes once to each rank that has some of its experts.
  const double copies = bytes / top_k * expected_units(g.size, top_k);
  if (inner >= g.size || m.num_levels < 2) return all_to_all_s(m, g, copies);
  const double units = g.size / inner;
  const double visited = std::min(expected_units(units, top_k), max_units);
  const double row_bytes = bytes / top_k;
  const int level = m.num_levels > 1 ? 1 : 0;
  // Outside: one copy a visited foreign unit. Inside: every row but those for the device itself.
  double outside = row_bytes * visited * (units - 1) / units / bandwidth(m.levels[level], g);
  for (int i = level + 1; i < m.num_levels; ++i) {
    const double here = members(m.levels[i - 1], g);
    if (here < g.size)
      outside = std::max(outside, row_bytes * visited * (g.size - here) / g.size / bandwidth(m.levels[i], g));
  }
  const double inside = inner > 1 ? copies * (inner - 1) / inner / bandwidth(m.levels[0], g) : 0;
  return std::max(outside, inside) + m.levels[level].latency_s * std::log2(g.size);
}

double send_s(const Machine& m, double distance, double bytes) {
  int level = 0;
  while (level + 1 < m.num_levels && m.levels[level].devices <= distance) ++level;
  const double peers = m.levels[level].mesh ? m.levels[level].devices - 1 : 1;
  return m.levels[level].latency_s + bytes * peers / m.levels[level].bytes_per_s;
}

}  // namespace trireme::sim
