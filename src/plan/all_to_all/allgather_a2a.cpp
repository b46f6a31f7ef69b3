#include "plan/all_to_all/allgather_a2a.h"

#include <algorithm>

#include "plan/all_to_all/between_nodes.h"
#include "plan/all_to_all/parcels.h"

namespace trireme::plan {

Pattern allgather_a2a(const NodeShape& shape, Senders senders) {
  Phase gather = to_counterparts(shape, Rows::all, senders);
  gather.name = "gather";
  Phase hand_out{.name = "hand out", .after = {0}};
  for (int node = 0; node < shape.num_nodes(); ++node)
    for (int step = 0; step < shape.ranks(node); ++step)
      for (int l = 0; l < shape.ranks(node); ++l) {
        const int from = shape.first(node) + l;
        if (!senders.contains(from)) continue;
        Transfer t{from, shape.counterpart(node, l + step), {}};
        std::vector<int> sources = stands_for(shape, from);
        sources.insert(std::upper_bound(sources.begin(), sources.end(), from), from);
        for (const Members& m : progressions(sources)) t.parcels.push_back({m, {.first = t.to}});
        hand_out.transfers.push_back(std::move(t));
      }
  return {.name = "allgather_a2a", .size = shape.size(), .phases = {std::move(gather), std::move(hand_out)}};
}

}  // namespace trireme::plan
