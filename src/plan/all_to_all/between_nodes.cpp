#include "plan/all_to_all/between_nodes.h"

namespace trireme::plan {

Phase on_node(const NodeShape& shape, Senders senders, Phase named, const ParcelsBetween& parcels) {
  for (int node = 0; node < shape.num_nodes(); ++node)
    for (int step = 0; step < shape.ranks(node); ++step)
      for (int l = 0; l < shape.ranks(node); ++l) {
        const int from = shape.first(node) + l, to = shape.counterpart(node, l + step);
        if (!senders.contains(from)) continue;
        Transfer t{from, to, parcels(from, to)};
        if (!t.parcels.empty()) named.transfers.push_back(std::move(t));
      }
  return named;
}

Phase inside_node(const NodeShape& shape, Rows rows, Senders senders) {
  return on_node(shape, senders, {.name = "local"},
                 [&](int from, int to) { return std::vector<Parcel>{{{.first = from}, {.first = to}, rows}}; });
}

Phase to_counterparts(const NodeShape& shape, Rows rows, Senders senders) {
  Phase phase{.name = "remote"};
  for (int step = 1; step < shape.num_nodes(); ++step)
    for (int from = 0; from < shape.size(); ++from) {
      if (!senders.contains(from)) continue;
      const int other = (shape.node(from) + step) % shape.num_nodes();
      const Members there{.first = shape.first(other), .count = shape.ranks(other)};
      phase.transfers.push_back({from, shape.counterpart(other, shape.local(from)), {{{.first = from}, there, rows}}});
    }
  return phase;
}

Phase pass_on(const NodeShape& shape, Rows rows, Senders senders) {
  return on_node(shape, senders, {.name = "pass on", .after = {1}}, [&](int from, int to) {
    std::vector<Parcel> parcels;
    for (const int source : stands_for(shape, from)) parcels.push_back({{.first = source}, {.first = to}, rows});
    return parcels;
  });
}

std::vector<int> stands_for(const NodeShape& shape, int member) {
  std::vector<int> out;
  const int node = shape.node(member);
  for (int other = 0; other < shape.num_nodes(); ++other)
    for (int l = shape.local(member); other != node && l < shape.ranks(other); l += shape.ranks(node))
      out.push_back(shape.first(other) + l);
  return out;
}

}  // namespace trireme::plan
