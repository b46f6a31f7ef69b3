#include "plan/all_to_all/allgather_a2a.h"

#include <algorithm>

#include "plan/all_to_all/between_nodes.h"
#include "plan/all_to_all/parcels.h"

namespace trireme::plan {

Pattern allgather_a2a(const NodeShape& shape, Senders senders) {
  Phase gather = to_counterparts(shape, Rows::all, senders);
  gather.name = "gather";
  Phase hand_out = on_node(shape, senders, {.name = "hand out", .after = {0}}, [&](int from, int to) {
    std::vector<int> sources = stands_for(shape, from);
    sources.insert(std::upper_bound(sources.begin(), sources.end(), from), from);
    std::vector<Parcel> parcels;
    for (const Members& m : progressions(sources)) parcels.push_back({m, {.first = to}});
    return parcels;
  });
  return {.name = "allgather_a2a", .size = shape.size(), .phases = {std::move(gather), std::move(hand_out)}};
}

}  // namespace trireme::plan
