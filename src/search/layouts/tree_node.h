// A node of a search's tree: a group of layouts, down to a single one.
#pragma once
#include <limits>
#include <tuple>

namespace trireme::search {

// Indices into the lists of each level; each but the first may be open (-1).
struct TreeNode {
  double bound_s = 0;
  int cell = 0;
  int family = -1, recomputation = -1, states = -1;
  auto place() const { return std::tie(cell, family, recomputation, states); }
  bool operator>(const TreeNode& o) const {
    return std::tie(bound_s, cell, family, recomputation, states) >
           std::tie(o.bound_s, o.cell, o.family, o.recomputation, o.states);
  }
};

// Which node needs least memory, for questions that nothing answers; equal ones by place.
struct MostFrugal {
  double bytes = std::numeric_limits<double>::infinity();
  TreeNode node;
  void see(double other_bytes, const TreeNode& other) {
    if (other_bytes < bytes || (other_bytes == bytes && other.place() < node.place()))
      bytes = other_bytes, node = other;
  }
};

}  // namespace trireme::search
