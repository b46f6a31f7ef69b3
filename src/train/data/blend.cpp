#include "train/data/blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>

#include "base/errors.h"

namespace trireme::train {
namespace {

constexpr int fraction_bits = 63;

// Of the first `count` sequences of a node, how many go to its first child. Whole numbers: it never skips one.
std::int64_t to_first(std::int64_t count, std::uint64_t share) {
  const auto product = static_cast<unsigned __int128>(count) * share;
  return static_cast<std::int64_t>((product + (std::uint64_t{1} << (fraction_bits - 1))) >> fraction_bits);
}

}  // namespace

Blend::Blend(const std::vector<BlendShare>& shares) {
  TRIREME_CHECK(!shares.empty(), "a blend of nothing");
  struct Tree {
    double weight;
    std::size_t order;  // equal weights: leaves by name, then joined trees
    int node;
    bool operator>(const Tree& other) const { return std::tie(weight, order) > std::tie(other.weight, other.order); }
  };
  std::vector<std::size_t> by_name(shares.size());
  std::iota(by_name.begin(), by_name.end(), std::size_t{0});
  std::ranges::sort(by_name, {}, [&](std::size_t i) { return shares[i].name; });
  std::priority_queue<Tree, std::vector<Tree>, std::greater<>> trees;
  for (const std::size_t i : by_name) {
    TRIREME_CHECK(shares[i].weight > 0, "{} has the weight {}", shares[i].name, shares[i].weight);
    nodes_.push_back({.set = i});
    trees.push({shares[i].weight, nodes_.size() - 1, static_cast<int>(nodes_.size()) - 1});
  }
  while (trees.size() > 1) {
    const Tree lighter = trees.top();
    trees.pop();
    const Tree heavier = trees.top();
    trees.pop();
    const double weight = lighter.weight + heavier.weight;
    nodes_.push_back({.first = heavier.node,
                      .second = lighter.node,
                      .share = static_cast<std::uint64_t>(std::ldexp(heavier.weight / weight, fraction_bits))});
    trees.push({weight, nodes_.size() - 1, static_cast<int>(nodes_.size()) - 1});
  }
}

BlendPlace Blend::place(std::int64_t number) const {
  TRIREME_CHECK(number >= 0, "sequence {}", number);
  std::size_t node = nodes_.size() - 1;
  while (nodes_[node].first >= 0) {
    const std::int64_t before = to_first(number, nodes_[node].share);
    const bool goes_first = to_first(number + 1, nodes_[node].share) > before;
    number = goes_first ? before : number - before;
    node = static_cast<std::size_t>(goes_first ? nodes_[node].first : nodes_[node].second);
  }
  return {.set = nodes_[node].set, .number = number};
}

std::vector<std::int64_t> Blend::taken(std::int64_t num_sequences) const {
  std::vector<std::int64_t> out((nodes_.size() + 1) / 2);
  count(static_cast<int>(nodes_.size()) - 1, num_sequences, out);
  return out;
}

void Blend::count(int node, std::int64_t of_node, std::vector<std::int64_t>& out) const {
  const Node& n = nodes_[static_cast<std::size_t>(node)];
  if (n.first < 0) {
    out[n.set] = of_node;
    return;
  }
  const std::int64_t first = to_first(of_node, n.share);
  count(n.first, first, out);
  count(n.second, of_node - first, out);
}

}  // namespace trireme::train
