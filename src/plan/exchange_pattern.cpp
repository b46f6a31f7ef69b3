#include "plan/exchange_pattern.h"

#include <algorithm>

#include "plan/all_to_all/generators.h"

namespace trireme::plan {

NodeShape node_shape(const Mesh& mesh, const GroupKind& kind, int rank) {
  std::vector<int> hosts, ranks;  // with a member, in order
  for (const int host : mesh.hosts(mesh.group(kind, rank))) {
    if (hosts.empty() || host != hosts.back()) hosts.push_back(host), ranks.push_back(0);
    ++ranks.back();
  }
  // Behind each switch equally many of the group's hosts: where they are evenly apart and the first is a switch's first.
  const int step = hosts.size() > 1 ? hosts[1] - hosts[0] : 1, at_switch = mesh.hosts_per_group;
  bool grouped = at_switch > 0 && at_switch % step == 0 && hosts.front() % at_switch < step;
  for (std::size_t i = 1; i < hosts.size(); ++i) grouped = grouped && hosts[i] - hosts[i - 1] == step;
  return NodeShape(std::move(ranks), grouped ? at_switch / step : 0);
}

std::vector<NodeShape> ep_shapes(const Mesh& mesh) {
  std::vector<NodeShape> out;
  for (const auto& group : mesh.groups(Axis::ep))
    if (NodeShape shape = node_shape(mesh, Axis::ep, group.front()); std::find(out.begin(), out.end(), shape) == out.end())
      out.push_back(std::move(shape));
  return out;
}

Pattern exchange_pattern(const Plan& plan, int rank) {
  return make_pattern(plan.all_to_all, node_shape(plan.mesh, Axis::ep, rank));
}

std::vector<std::string> fitting_patterns(const Mesh& mesh) {
  auto names = pattern_names();
  for (const NodeShape& shape : ep_shapes(mesh)) {
    const auto here = pattern_names(shape);
    std::erase_if(names, [&](const auto& name) { return std::find(here.begin(), here.end(), name) == here.end(); });
  }
  return names;
}

}  // namespace trireme::plan
