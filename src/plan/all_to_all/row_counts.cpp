#include "plan/all_to_all/row_counts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/errors.h"

namespace trireme::plan {

double rows_of(const Parcel& parcel, Flow flow, const RowCounts& counts) {
  const Members& tokens_of = flow == Flow::dispatch ? parcel.sources : parcel.destinations;
  const Members& hosts = flow == Flow::dispatch ? parcel.destinations : parcel.sources;
  switch (parcel.rows) {
    case Rows::each:
      return counts.each(tokens_of, hosts);
    case Rows::once:
      return counts.once(tokens_of.first, hosts);
    case Rows::all:
      break;
  }
  return counts.all(tokens_of.first);
}

namespace {

// The chance that `top_k` of `among` equally likely experts are all outside of `set` of them: C(E - E_R, k) / C(E, k) as a
// product of k factors.
double miss(double among, double set, int top_k) {
  double chance = 1;
  for (int i = 0; i < top_k; ++i) chance *= std::max(0.0, (among - set - i) / (among - i));
  return chance;
}

double choose(double n, double k) {
  if (k < 0 || k > n) return 0;
  return std::round(std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)));
}

}  // namespace

UniformRouting::UniformRouting(int members, double tokens, int experts, int top_k, int groups, int chosen_groups)
    : tokens_(tokens), each_(tokens * top_k / members), top_k_(top_k) {
  TRIREME_CHECK(members > 0 && top_k > 0 && top_k <= experts && experts >= members);
  TRIREME_CHECK(groups > 0 && chosen_groups > 0 && chosen_groups <= groups);
  const double of_group = static_cast<double>(experts) / groups, ways = choose(groups, chosen_groups);
  for (int n = 0; n <= members; ++n) {
    const double set = static_cast<double>(experts) * n / members;
    if (chosen_groups == groups) {
      hit_.push_back(1 - miss(experts, set, top_k));
      continue;
    }
    // The set covers whole groups and a part of one more: how many of them a token chooses is hypergeometric.
    const double whole = std::floor(set / of_group + 1e-9), rest = set - whole * of_group;
    const double one = rest > 1e-9 ? 1 : 0, others = groups - whole - one;
    double missed = 0;
    for (int j = 0; j <= std::min<double>(chosen_groups, whole); ++j)
      for (int part = 0; part <= one; ++part)
        missed += choose(whole, j) * choose(others, chosen_groups - j - part) / ways *
                  miss(of_group * chosen_groups, j * of_group + part * rest, top_k);
    hit_.push_back(1 - missed);
  }
}

double UniformRouting::each(const Members& sources, const Members& destinations) const {
  return each_ * sources.count * destinations.count;
}

double UniformRouting::once(int, const Members& destinations) const {
  return tokens_ * hit_[static_cast<std::size_t>(destinations.count)];
}

TokenRoutes::TokenRoutes(const NodeShape& shape, const Slots& slots) : shape_(shape) {
  const auto p = static_cast<std::size_t>(shape.size()), n = static_cast<std::size_t>(shape.num_nodes());
  TRIREME_CHECK(slots.size() == p, "tokens of {} members for {}", slots.size(), p);
  each_.assign(p * p, 0);
  once_member_ = each_;
  once_node_.assign(p * n, 0);
  std::vector<int> seen_member(p, -1), seen_node(n, -1);
  int stamp = 0;
  for (int s = 0; s < shape.size(); ++s) {
    const auto& tokens = slots[static_cast<std::size_t>(s)];
    tokens_.push_back(static_cast<double>(tokens.size()));
    for (const auto& token : tokens) {
      for (const int d : token) {
        TRIREME_CHECK(d >= 0 && d < shape.size());
        ++each_[at(s, d)];
        if (std::exchange(seen_member[static_cast<std::size_t>(d)], stamp) != stamp) ++once_member_[at(s, d)];
        const auto node = static_cast<std::size_t>(shape.node(d));
        if (std::exchange(seen_node[node], stamp) != stamp) ++once_node_[static_cast<std::size_t>(s) * n + node];
      }
      ++stamp;
    }
  }
}

std::size_t TokenRoutes::at(int source, int destination) const {
  return static_cast<std::size_t>(source) * static_cast<std::size_t>(shape_.size()) +
         static_cast<std::size_t>(destination);
}

double TokenRoutes::each(const Members& sources, const Members& destinations) const {
  double rows = 0;
  for (int s = 0; s < sources.count; ++s)
    for (int d = 0; d < destinations.count; ++d) rows += each_[at(sources[s], destinations[d])];
  return rows;
}

double TokenRoutes::once(int source, const Members& destinations) const {
  if (destinations.count == 1) return once_member_[at(source, destinations.first)];
  const int node = shape_.node(destinations.first);
  TRIREME_CHECK(
      destinations.stride == 1 && destinations.first == shape_.first(node) && destinations.count == shape_.ranks(node),
      "tokens for members {} to {}, which are not a node", destinations.first, destinations.last());
  return once_node_[static_cast<std::size_t>(source) * static_cast<std::size_t>(shape_.num_nodes()) +
                    static_cast<std::size_t>(node)];
}

BlockTable::BlockTable(int size, std::vector<double> counts) : size_(size), counts_(std::move(counts)) {
  TRIREME_CHECK(static_cast<int>(counts_.size()) == size * size);
}

double BlockTable::each(const Members& sources, const Members& destinations) const {
  double rows = 0;
  for (int s = 0; s < sources.count; ++s)
    for (int d = 0; d < destinations.count; ++d)
      rows += counts_[static_cast<std::size_t>(sources[s]) * static_cast<std::size_t>(size_) +
                      static_cast<std::size_t>(destinations[d])];
  return rows;
}

double BlockTable::once(int source, const Members& destinations) const {
  return each({.first = source}, destinations);
}

double BlockTable::all(int source) const {
  return each({.first = source}, {.first = 0, .count = size_});
}

}  // namespace trireme::plan
