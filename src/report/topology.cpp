#include "report/topology.h"

#include <fmt/format.h>

namespace trireme::report {

namespace {

constexpr int most_nodes = 16;  // drawn one by one

}  // namespace

std::string draw_topology(const plan::NodeShape& shape, const std::string& on_node, const std::string& between) {
  const int nodes = shape.num_nodes();
  std::string out;
  if (nodes > 1) out += fmt::format("network{}\n", between.empty() ? "" : ": " + between);
  for (int n = 0; n < nodes; ++n) {
    if (nodes > most_nodes && n == most_nodes - 1) {
      out += fmt::format("|   ... {} more\n", nodes - most_nodes);
      n = nodes - 1;
    }
    const bool grouped = shape.nodes_per_group() > 0 && nodes > 1;
    if (grouped && n % shape.nodes_per_group() == 0) out += fmt::format("+-- group {}\n", shape.group(n));
    const int first = shape.first(n), last = first + shape.ranks(n) - 1;
    out += fmt::format("{}node {}: {}{}\n", nodes == 1 ? "" : grouped ? "|   +-- " : "+-- ", n,
                       first == last ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, last),
                       n == 0 && !on_node.empty() ? " (" + on_node + ")" : "");
  }
  return out;
}

}  // namespace trireme::report
