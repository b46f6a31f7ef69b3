// The phases that HALO, deduplication and the all-gather have in common.
#pragma once
#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

// Blocks for the own node, from their source.
Phase inside_node(const NodeShape& shape, Rows rows, Senders senders);
// Blocks for every other node, to the source's counterpart there. No bound on what is in flight.
Phase to_counterparts(const NodeShape& shape, Rows rows, Senders senders);
// Members of other nodes whose counterpart on its node `member` is, ascending.
std::vector<int> stands_for(const NodeShape& shape, int member);

}  // namespace trireme::plan
