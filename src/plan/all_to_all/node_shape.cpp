#include "plan/all_to_all/node_shape.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"

namespace trireme::plan {

const char* name_of(Reach reach) {
  switch (reach) {
    case Reach::self:
      return "self";
    case Reach::node:
      return "node";
    case Reach::group:
      return "group";
    case Reach::beyond:
      break;
  }
  return "beyond";
}

NodeShape::NodeShape(std::vector<int> ranks_of_node, int nodes_per_group)
    : ranks_of_node_(std::move(ranks_of_node)), nodes_per_group_(nodes_per_group) {
  TRIREME_CHECK(!ranks_of_node_.empty() && nodes_per_group_ >= 0);
  if (nodes_per_group_ >= num_nodes()) nodes_per_group_ = 0;
  for (int node = 0; node < num_nodes(); ++node) {
    TRIREME_CHECK(ranks(node) > 0, "node {} has {} members", node, ranks(node));
    first_.push_back(size());
    node_of_.insert(node_of_.end(), static_cast<std::size_t>(ranks(node)), node);
  }
}

NodeShape NodeShape::even(int size, int ranks_per_node, int nodes_per_group) {
  TRIREME_CHECK(size > 0 && ranks_per_node >= 0);
  if (ranks_per_node == 0) return one_node(size);
  std::vector<int> ranks;
  for (int left = size; left > 0; left -= ranks_per_node) ranks.push_back(std::min(left, ranks_per_node));
  return NodeShape(std::move(ranks), nodes_per_group);
}

NodeShape NodeShape::of_hosts(const std::vector<std::string>& host_of_member) {
  std::vector<int> ranks;
  for (std::size_t m = 0; m < host_of_member.size(); ++m) {
    const auto earlier =
        std::find(host_of_member.begin(), host_of_member.begin() + static_cast<std::ptrdiff_t>(m), host_of_member[m]);
    if (m > 0 && host_of_member[m] == host_of_member[m - 1])
      ++ranks.back();
    else if (earlier == host_of_member.begin() + static_cast<std::ptrdiff_t>(m))
      ranks.push_back(1);
    else
      throw ConfigError({.key = "layout.all_to_all",
                         .value = fmt::format("member {} of the group is on the host of member {}, others between", m,
                                              earlier - host_of_member.begin()),
                         .allowed = "ranks numbered host by host, or the flat pattern"});
  }
  return NodeShape(std::move(ranks));
}

int NodeShape::num_groups() const {
  return nodes_per_group_ > 0 ? (num_nodes() + nodes_per_group_ - 1) / nodes_per_group_ : 1;
}

Reach NodeShape::reach(int from, int to) const {
  if (from == to) return Reach::self;
  if (node(from) == node(to)) return Reach::node;
  return group(node(from)) == group(node(to)) ? Reach::group : Reach::beyond;
}

bool NodeShape::is_even() const {
  return std::all_of(ranks_of_node_.begin(), ranks_of_node_.end(),
                     [&](int n) { return n == ranks_of_node_.front(); }) &&
         (nodes_per_group_ == 0 || num_nodes() % nodes_per_group_ == 0);
}

std::string to_text(const NodeShape& shape) {
  const auto& ranks = shape.ranks_of_node();
  const bool equal = std::all_of(ranks.begin(), ranks.end(), [&](int n) { return n == ranks.front(); });
  std::string text = equal ? fmt::format("{} node{} of {}", ranks.size(), ranks.size() == 1 ? "" : "s", ranks.front())
                           : fmt::format("nodes of {}", fmt::join(ranks, "+"));
  if (shape.nodes_per_group() > 0) text += fmt::format(" in groups of {}", shape.nodes_per_group());
  return text;
}

}  // namespace trireme::plan
