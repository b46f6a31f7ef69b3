#include "plan/all_to_all/dedup.h"

#include "plan/all_to_all/between_nodes.h"

namespace trireme::plan {

Pattern dedup(const NodeShape& shape, Senders senders) {
  Pattern p{.name = "dedup", .size = shape.size(), .phases = {inside_node(shape, Rows::once, senders)}};
  if (shape.num_nodes() == 1) return p;
  p.phases.push_back(to_counterparts(shape, Rows::once, senders));
  Phase pass_on{.name = "pass on", .after = {1}};
  for (int node = 0; node < shape.num_nodes(); ++node)
    for (int step = 0; step < shape.ranks(node); ++step)
      for (int l = 0; l < shape.ranks(node); ++l) {
        const int from = shape.first(node) + l;
        if (!senders.contains(from)) continue;
        Transfer t{from, shape.counterpart(node, l + step), {}};
        for (const int source : stands_for(shape, from))
          t.parcels.push_back({{.first = source}, {.first = t.to}, Rows::once});
        if (!t.parcels.empty()) pass_on.transfers.push_back(std::move(t));
      }
  p.phases.push_back(std::move(pass_on));
  return p;
}

}  // namespace trireme::plan
