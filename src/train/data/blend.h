// The order in which a blend takes sequences from its sets: a function of the sequence's number alone, without a table
// and without a state.
//
// The sets are the leaves of a Huffman tree over their weights. A node that has given c sequences has given
// round(c * share of its first child) of them to that child, so at each node both children are within half a sequence
// of their share. After n sequences a set has given n w / W of them within 1.7 (half the sum of the reciprocal
// Fibonacci numbers, which bounds the weights on a path of a Huffman tree), and within 1.5 in a blend of up to five
// sets: at most one off its rounded share.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::train {

struct BlendShare {
  std::string name;   // the order of two sets of one weight
  double weight = 1;  // above 0, on any scale
};

struct BlendPlace {
  std::size_t set = 0;
  std::int64_t number = 0;  // in the set
  bool operator==(const BlendPlace&) const = default;
};

class Blend {
 public:
  // The order of the shares does not matter, but numbers the sets.
  explicit Blend(const std::vector<BlendShare>& shares);

  BlendPlace place(std::int64_t number) const;                        // O(depth of the tree)
  std::vector<std::int64_t> taken(std::int64_t num_sequences) const;  // of each set in the first so many

 private:
  struct Node {
    int first = -1, second = -1;  // nodes; -1: a leaf
    std::size_t set = 0;          // of a leaf
    std::uint64_t share = 0;      // of the first child, in units of 2^-63
  };
  void count(int node, std::int64_t of_node, std::vector<std::int64_t>& out) const;

  std::vector<Node> nodes_;  // the last is the root
};

}  // namespace trireme::train
