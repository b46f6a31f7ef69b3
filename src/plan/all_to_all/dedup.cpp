#include "plan/all_to_all/dedup.h"

#include <algorithm>

#include "plan/all_to_all/between_nodes.h"

namespace trireme::plan {

Pattern dedup(const NodeShape& shape, Senders senders) {
  Pattern p{.name = "dedup", .size = shape.size(), .phases = {inside_node(shape, Rows::once, senders)}};
  if (shape.num_nodes() == 1) return p;
  p.phases.push_back(to_counterparts(shape, Rows::once, senders));
  // Members of all nodes send in the same order of distance, so a few at a time meet at no card; all at once share
  // cards unevenly, and a node passes its last rows on only when the slowest flow is done. In four turns, however many
  // nodes there are: each is a latency.
  p.phases.back().in_flight = std::max(2, (shape.num_nodes() + 2) / 4);
  p.phases.push_back(pass_on(shape, Rows::once, senders));
  return p;
}

}  // namespace trireme::plan
