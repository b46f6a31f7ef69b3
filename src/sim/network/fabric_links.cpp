#include "sim/network/fabric_links.h"

#include <algorithm>

#include "base/errors.h"

namespace trireme::sim {

using plan::Reach;

FabricLinks::FabricLinks(const Fabric& fabric, const plan::NodeShape& shape, int period)
    : fabric_(fabric), shape_(shape), period_(period) {
  const int nodes = shape.node(period - 1) + 1, groups = shape.group(nodes - 1) + 1;
  cards_ = 2 * period;
  num_cards_ = nodes * fabric.cards_per_node;
  trunks_ = cards_ + 2 * num_cards_;
  for (int m = 0; m < period; ++m) {
    const int ranks = shape.ranks(shape.node(m));
    card_of_.push_back(shape.node(m) * fabric.cards_per_node +
                       shape.local(m) * std::min(fabric.cards_per_node, ranks) / ranks);
  }
  double trunk_bytes_per_s = 0;
  if (fabric.uplink_bytes_per_s > 0 && shape.num_groups() > 1) {
    ways_ = fabric.trunks == Trunks::by_group         ? shape.num_groups()
            : fabric.trunks == Trunks::by_destination ? fabric.num_trunks
                                                      : 1;
    TRIREME_CHECK(ways_ > 0);
    num_trunks_ = groups * ways_;
    // A group needs no link to itself.
    trunk_bytes_per_s = fabric.uplink_bytes_per_s / (fabric.trunks == Trunks::by_group ? ways_ - 1 : ways_);
  }
  seconds_per_byte_.assign(static_cast<std::size_t>(trunks_ + 2 * num_trunks_), 1 / fabric.node.bytes_per_s);
  const auto set = [&](int first, int last, double bytes_per_s) {
    std::fill(seconds_per_byte_.begin() + first, seconds_per_byte_.begin() + last, 1 / bytes_per_s);
  };
  set(cards_, trunks_, fabric.group.bytes_per_s);
  if (num_trunks_ > 0) set(trunks_, size(), trunk_bytes_per_s);
}

const char* FabricLinks::name(int link) const {
  return link < cards_ ? "node port" : link < trunks_ ? "network card" : "uplink";
}

LinkPath FabricLinks::path(int from, int to) const {
  const int sender = folded(from), receiver = folded(to), from_node = shape_.node(from), to_node = shape_.node(to);
  if (from_node == to_node) return {{sender, period_ + receiver}, 2};
  LinkPath path{{cards_ + card(sender), cards_ + num_cards_ + card(receiver)}, 2};
  const int from_group = shape_.group(from_node), to_group = shape_.group(to_node);
  if (num_trunks_ == 0 || from_group == to_group) return path;
  const int out = shape_.group(shape_.node(sender)) * ways_;
  if (fabric_.trunks == Trunks::by_group) {  // one link joins both
    path.links[path.count++] = trunks_ + out + (to_group - from_group + ways_) % ways_;
    return path;
  }
  const int way = fabric_.trunks == Trunks::by_destination ? to_node % ways_ : 0;
  const int in = num_trunks_ + shape_.group(shape_.node(receiver)) * ways_;
  path.links[path.count++] = trunks_ + out + way;
  path.links[path.count++] = trunks_ + in + way;
  return path;
}

bool FabricLinks::fold(const Fabric& fabric, const plan::NodeShape& shape) {
  if (!shape.is_even()) return false;
  // By the destination's node: groups are alike where each begins with the same spine.
  return shape.num_groups() == 1 || fabric.trunks != Trunks::by_destination ||
         shape.nodes_per_group() % fabric.num_trunks == 0;
}

}  // namespace trireme::sim
