#include "plan/all_to_all/node_aware.h"

#include "base/errors.h"
#include "plan/all_to_all/parcels.h"

namespace trireme::plan {

Pattern node_aware(const NodeShape& shape, Senders senders) {
  const int num_nodes = shape.num_nodes();
  Phase gather{.name = "gather"}, across{.name = "across", .after = {0}};
  // Whom member (node, local) stands for elsewhere: members there whose counterpart on this node it is.
  const auto serves = [&](int node, int local, int other) {
    Members out{.first = shape.first(other) + local, .count = 0, .stride = shape.ranks(node)};
    if (local < shape.ranks(other)) out.count = 1 + (shape.ranks(other) - 1 - local) / shape.ranks(node);
    if (out.count <= 1) out.stride = 1;
    return out;
  };
  for (int node = 0; node < num_nodes; ++node)
    for (int step = 0; step < shape.ranks(node); ++step)
      for (int l = 0; l < shape.ranks(node); ++l) {
        const int from = shape.first(node) + l, to_local = (l + step) % shape.ranks(node);
        if (!senders.contains(from)) continue;
        Transfer t{from, shape.first(node) + to_local, {}};
        std::vector<int> destinations;
        for (int other = 0; other < num_nodes; ++other) {
          if (other == node) {
            destinations.push_back(t.to);
            continue;
          }
          const Members there = serves(node, to_local, other);
          for (int i = 0; i < there.count; ++i) destinations.push_back(there[i]);
        }
        for (const Members& m : progressions(destinations)) t.parcels.push_back({{.first = from}, m});
        gather.transfers.push_back(std::move(t));
      }
  for (int step = 1; step < num_nodes; ++step)
    for (int node = 0; node < num_nodes; ++node) {
      const int other = (node + step) % num_nodes;
      const Members mine{.first = shape.first(node), .count = shape.ranks(node)};
      for (int l = 0; l < shape.ranks(node); ++l) {
        const int from = shape.first(node) + l;
        if (!senders.contains(from)) continue;
        const Members there = serves(node, l, other);
        for (int i = 0; i < there.count; ++i)
          across.transfers.push_back({from, there[i], {{mine, {.first = there[i]}}}});
      }
    }
  return {.name = "node_aware", .size = shape.size(), .phases = {std::move(gather), std::move(across)}};
}

}  // namespace trireme::plan
