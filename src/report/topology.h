// The nodes of a run drawn as a tree, with what messages cost on them and between them.
#pragma once
#include <string>

#include "plan/all_to_all/node_shape.h"

namespace trireme::report {

// `on_node` and `between`: a line's text ("16.1 us, 4012 MB/s"), empty where there is no such link. Of many nodes the
// first and the last are drawn.
std::string draw_topology(const plan::NodeShape& shape, const std::string& on_node, const std::string& between);

}  // namespace trireme::report
