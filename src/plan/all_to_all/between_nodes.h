// The phases that HALO, deduplication and the all-gather have in common.
#pragma once
#include <functional>
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

// What every sender has for each member of its own node, itself included: parcels(from, to), no transfer where there are
// none. Members start at different places, so that no receiver is everybody's first.
using ParcelsBetween = std::function<std::vector<Parcel>(int from, int to)>;
Phase on_node(const NodeShape& shape, Senders senders, Phase named, const ParcelsBetween& parcels);

// Blocks for the own node, from their source.
Phase inside_node(const NodeShape& shape, Rows rows, Senders senders);
// Blocks for every other node, to the source's counterpart there. No bound on what is in flight.
Phase to_counterparts(const NodeShape& shape, Rows rows, Senders senders);
// What counterparts brought (as the second phase), to those of the node whom it is for.
Phase pass_on(const NodeShape& shape, Rows rows, Senders senders);
// Members of other nodes whose counterpart on its node `member` is, ascending.
std::vector<int> stands_for(const NodeShape& shape, int member);

}  // namespace trireme::plan
