// The links of a fabric that members' messages cross: a port each way of every member on its node, network cards, and
// what joins groups of nodes. Numbered, so that loads and queues are plain columns.
#pragma once
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "sim/network/fabric.h"

namespace trireme::sim {

// The numbers of a message's links.
struct LinkPath {
  int links[4];
  int count = 0;
  const int* begin() const { return links; }
  const int* end() const { return links + count; }
};

class FabricLinks {
 public:
  // Links of the first `period` members: others' are folded onto theirs, as alike members of a balanced pattern allow.
  // Both are kept by reference.
  FabricLinks(const Fabric& fabric, const plan::NodeShape& shape, int period);

  int size() const { return static_cast<int>(seconds_per_byte_.size()); }
  double seconds_per_byte(int link) const { return seconds_per_byte_[static_cast<std::size_t>(link)]; }
  int first_card() const { return cards_; }  // ports come before
  const char* name(int link) const;  // "node port", "network card", "uplink"
  int folded(int member) const { return member < period_ ? member : member % period_; }
  LinkPath path(int from, int to) const;

  // Whether the first `period` members' links stand for all.
  static bool fold(const Fabric& fabric, const plan::NodeShape& shape);

 private:
  int card(int member) const { return card_of_[static_cast<std::size_t>(member)]; }
  const Fabric& fabric_;
  const plan::NodeShape& shape_;
  int period_, ways_ = 1;
  int cards_ = 0, trunks_ = 0;          // first of them; ports come before
  int num_cards_ = 0, num_trunks_ = 0;  // each way
  std::vector<int> card_of_;            // by member of the period
  std::vector<double> seconds_per_byte_;
};

}  // namespace trireme::sim
