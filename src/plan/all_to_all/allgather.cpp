#include "plan/all_to_all/allgather.h"

#include "plan/all_to_all/between_nodes.h"

namespace trireme::plan {

Pattern allgather(const NodeShape& shape, Senders senders) {
  Pattern p{.name = "allgather", .size = shape.size(), .phases = {inside_node(shape, Rows::all, senders)}};
  if (shape.num_nodes() == 1) return p;
  p.phases.push_back(to_counterparts(shape, Rows::all, senders));
  p.phases.push_back(pass_on(shape, Rows::all, senders));
  return p;
}

}  // namespace trireme::plan
