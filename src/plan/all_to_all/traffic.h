// What a pattern puts on the wires: messages and rows by what they cross.
#pragma once
#include <array>
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/row_counts.h"

namespace trireme::plan {

struct LevelTraffic {
  int messages = 0;
  double rows = 0;
};

// Messages that leave a member for another one.
struct Traffic {
  std::array<LevelTraffic, 3> by_reach;  // node, group, beyond
  LevelTraffic& at(Reach reach) { return by_reach[static_cast<std::size_t>(reach) - 1]; }
  const LevelTraffic& at(Reach reach) const { return by_reach[static_cast<std::size_t>(reach) - 1]; }
  LevelTraffic on_node() const { return at(Reach::node); }
  LevelTraffic off_node() const;
  LevelTraffic total() const;
};

Traffic traffic(const Pattern& pattern, int member, const NodeShape& shape, const RowCounts& counts);
// By member.
std::vector<Traffic> traffic(const Pattern& pattern, const NodeShape& shape, const RowCounts& counts);

}  // namespace trireme::plan
