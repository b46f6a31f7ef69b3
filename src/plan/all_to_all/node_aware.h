// Node-aware, or 2-D hierarchical: first inside the node, each member gathers all that its node has for the members
// with its own local index; then a message to the member of that index on every other node. N - 1 messages off the
// node, each of g blocks. With nodes of unequal size a member of a small node serves several indices. Source: Tutel
// (arXiv 2206.03382), sec. 3.3 (2DH); Jain et al., node-aware all-to-all.
#pragma once
#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

Pattern node_aware(const NodeShape& shape, Senders senders = {});

}  // namespace trireme::plan
