#include "plan/exchange_pattern.h"

#include <algorithm>

#include "plan/all_to_all/generators.h"

namespace trireme::plan {

NodeShape ep_shape(const Mesh& mesh, int rank) {
  const auto members = mesh.group(Axis::ep, rank);
  const int first_host = mesh.host(members.front());
  std::vector<int> ranks(static_cast<std::size_t>(mesh.host(members.back()) - first_host + 1), 0);
  for (const int member : members) ++ranks[static_cast<std::size_t>(mesh.host(member) - first_host)];
  const bool grouped = mesh.hosts_per_group > 0 && first_host % mesh.hosts_per_group == 0;
  return NodeShape(std::move(ranks), grouped ? mesh.hosts_per_group : 0);
}

std::vector<NodeShape> ep_shapes(const Mesh& mesh) {
  std::vector<NodeShape> out;
  for (int rank = 0; rank < mesh.world(); rank += mesh.ep)
    if (NodeShape shape = ep_shape(mesh, rank); std::find(out.begin(), out.end(), shape) == out.end())
      out.push_back(std::move(shape));
  return out;
}

Pattern exchange_pattern(const Plan& plan, int rank) {
  return make_pattern(plan.all_to_all, ep_shape(plan.mesh, rank));
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
