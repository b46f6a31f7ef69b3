#include "sim/rates/rates.h"

#include <algorithm>
#include <cmath>

namespace trireme::sim {

namespace {

// The largest divisor of `size` that is not above `most`.
int divisor_within(int size, double most) {
  int best = std::clamp(static_cast<int>(std::min(most, 1e9)), 1, size);
  while (size % best != 0) --best;
  return best;
}

}  // namespace

const UnitLevel& Rates::node() const {
  std::size_t level = 0;
  while (level + 1 < units_.size() && units_[level + 1].inside) ++level;
  return units_.at(level);
}

plan::NodeShape Rates::shape_of(const GroupPlace& group) const {
  const int size = static_cast<int>(group.size), members = divisor_within(size, group.members_within(node().devices));
  const int nodes = size / members;
  // Groups of nodes: of the level after the node, where there is one further out.
  const std::size_t level = static_cast<std::size_t>(&node() - units_.data()) + 1;
  if (nodes == 1 || level + 1 >= units_.size()) return plan::NodeShape::even(size, members);
  const int of_group = divisor_within(nodes, group.members_within(units_[level].devices) / members);
  return plan::NodeShape::even(size, members, of_group < nodes ? of_group : 0);
}

}  // namespace trireme::sim
