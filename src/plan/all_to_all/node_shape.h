// Where the members of a group are: which of them share a node, and which nodes share a switch (a group of nodes).
// Members are numbered node by node, as the ranks of a launcher are; nodes need not have equally many.
#pragma once
#include <string>
#include <vector>

namespace trireme::plan {

// What a message between two members crosses.
enum class Reach { self, node, group, beyond };
const char* name_of(Reach reach);

class NodeShape {
 public:
  // nodes_per_group: nodes that share a fast single-hop domain, in order; 0: the fabric has no such level (or all share
  // it).
  explicit NodeShape(std::vector<int> ranks_of_node, int nodes_per_group = 0);
  static NodeShape one_node(int size) { return NodeShape({size}); }
  // `size` members, ranks_per_node on each node, fewer on the last; 0: all on one node.
  static NodeShape even(int size, int ranks_per_node, int nodes_per_group = 0);
  // From the host of every member. ConfigError (key layout.all_to_all) where the members of a host are not consecutive.
  static NodeShape of_hosts(const std::vector<std::string>& host_of_member);

  int size() const { return static_cast<int>(node_of_.size()); }
  int num_nodes() const { return static_cast<int>(ranks_of_node_.size()); }
  int num_groups() const;
  int nodes_per_group() const { return nodes_per_group_; }
  const std::vector<int>& ranks_of_node() const { return ranks_of_node_; }

  int node(int member) const { return node_of_[static_cast<std::size_t>(member)]; }
  int local(int member) const { return member - first(node(member)); }  // its index in its node
  int ranks(int node) const { return ranks_of_node_[static_cast<std::size_t>(node)]; }
  int first(int node) const { return first_[static_cast<std::size_t>(node)]; }  // member
  // The member of `node` that stands for local index `local` of other nodes: the same index, wrapped where the node is
  // smaller.
  int counterpart(int node, int local) const { return first(node) + local % ranks(node); }
  int group(int node) const { return nodes_per_group_ > 0 ? node / nodes_per_group_ : 0; }
  Reach reach(int from, int to) const;
  bool is_even() const;  // equally many members a node and, with groups, nodes a group

  bool operator==(const NodeShape&) const = default;

 private:
  std::vector<int> ranks_of_node_, first_, node_of_;
  int nodes_per_group_ = 0;
};

// "4 nodes of 8" or "nodes of 3+2+4"; with groups "in groups of 2".
std::string to_text(const NodeShape& shape);

}  // namespace trireme::plan
