// What a pattern puts on the wires: messages and rows by what they cross, and the cost of its phases in symbols.
#pragma once
#include <array>
#include <string>
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

// Cost in the linear model of messages: a message of n rows over a level costs a + n m b, a member's messages of a
// level one after another, levels and independent phases at the same time. Coefficients of each phase's busiest sender.
struct PhaseCost {
  std::string name;
  std::vector<int> after;
  std::array<LevelTraffic, 3> by_reach;
};
struct SymbolicCost {
  std::vector<PhaseCost> phases;

  struct Rates {
    double latency_s = 0;
    double seconds_per_row = 0;
  };
  // By reach: node, group, beyond.
  double seconds(const std::array<Rates, 3>& rates) const;
};
SymbolicCost symbolic_cost(const Pattern& pattern, const NodeShape& shape, const RowCounts& counts);
// "max(3 aL + 3 m bL, 15 aR + 60 m bR -> 3 aL + 45 m bL)": L on the node, R off it, F beyond the group; m the bytes of
// a row, b seconds a byte.
std::string to_text(const SymbolicCost& cost);

}  // namespace trireme::plan
