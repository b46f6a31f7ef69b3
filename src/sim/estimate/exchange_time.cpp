#include "sim/estimate/exchange_time.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace trireme::sim {

namespace {

// The last level inside a node.
int node_level(const Machine& m) {
  int level = 0;
  for (int i = 1; i < m.num_levels && m.levels[i].inside; ++i) level = i;
  return level;
}

// The links outside of nodes, each level's share of `bytes` for all other nodes.
double outside_s(const Machine& m, const GroupPlace& g, int node, double bytes) {
  double seconds = 0;
  const double inner = members_of(m.levels[node], g);
  for (int i = node + 1; i < m.num_levels; ++i) {
    const double before = members_of(m.levels[i - 1], g);
    if (before >= g.size) break;
    seconds = std::max(seconds, bytes * (g.size - before) / (g.size - inner) / bandwidth_of(m.levels[i], g));
  }
  return seconds;
}

ExchangeTime flat(const Machine& m, const GroupPlace& g, int node, double bytes) {
  ExchangeTime t;
  t.alone_s = all_to_all_s(m, g, bytes);
  const double inner = members_of(m.levels[node], g);
  if (inner >= g.size) {
    t.inside_s = t.alone_s;
    return t;
  }
  t.outside_s = outside_s(m, g, node, bytes * (g.size - inner) / g.size);
  t.inside_s = all_to_all_s(m, g.first(inner), bytes * inner / g.size);
  t.alone_s = std::max(t.alone_s, t.inside_s);
  return t;
}

}  // namespace

double expected_units(double units, double top_k) {
  return units * (1 - std::pow(1 - 1 / units, top_k));
}

ExchangeTime exchange_time(const std::string& pattern, const Machine& m, const GroupPlace& g, const Rows& rows) {
  if (g.size <= 1) return {};
  const int node = node_level(m);
  const double inner = members_of(m.levels[node], g), nodes = g.size / inner;
  const GroupPlace on_node = g.first(inner);
  const MachineLevel& beyond = m.levels[std::min(node + 1, m.num_levels - 1)];
  ExchangeTime t;
  if (pattern == "dedup") {
    // A token goes once to each rank that has some of its experts, and once to each node.
    const double token = rows.bytes / rows.top_k, copies = token * expected_units(g.size, rows.top_k);
    if (nodes <= 1) return flat(m, g, node, copies);
    double visited = expected_units(nodes, rows.top_k);
    if (rows.max_nodes > 0) visited = std::min(visited, rows.max_nodes);
    t.outside_s = outside_s(m, g, node, token * visited * (nodes - 1) / nodes);
    t.inside_s = inner > 1 ? copies * (inner - 1) / inner / bandwidth_of(m.levels[node], g) : 0;
    t.alone_s = std::max(t.outside_s, t.inside_s) + beyond.latency_s * std::log2(g.size);
    return t;
  }
  if (pattern == "flat" || nodes <= 1 || (pattern == "halo" && inner <= 1)) return flat(m, g, node, rows.bytes);
  if (pattern == "halo") {
    const double local = all_to_all_s(m, on_node, rows.bytes / nodes),
                 redistribute = all_to_all_s(m, on_node, rows.bytes * (nodes - 1) / nodes);
    t.outside_s = outside_s(m, g, node, rows.bytes * (nodes - 1) / nodes) + latency_s(beyond, nodes - 1);
    t.inside_s = local + redistribute;
    t.alone_s = std::max(t.outside_s, local) + redistribute;
    return t;
  }
  TRIREME_CHECK(pattern == "allgather_a2a", "no price of {}", pattern);
  t.outside_s = ring_gather_s(m, g.every(inner), rows.bytes / rows.top_k * nodes);
  t.inside_s = all_to_all_s(m, on_node, rows.bytes);
  t.alone_s = t.outside_s + t.inside_s;
  return t;
}

}  // namespace trireme::sim
