// Patterns by the name that a config gives.
#pragma once
#include <string>
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

struct PatternOptions {
  int in_flight = 8;  // of `scattered`
  Senders senders;
};

// All names that a run can take. halo3 only fits shapes with groups of nodes.
std::vector<std::string> pattern_names();
// Whether a pattern depends on which members share a node.
bool needs_nodes(const std::string& name);
// Those that `shape` can run: all but halo3 where it has no groups.
std::vector<std::string> pattern_names(const NodeShape& shape);
// Those and `allgather`, which is priced but that no run executes.
std::vector<std::string> priced_pattern_names();
std::vector<std::string> priced_pattern_names(const NodeShape& shape);
// ConfigError (key layout.all_to_all) for an unknown name, or one that does not fit the shape.
Pattern make_pattern(const std::string& name, const NodeShape& shape, const PatternOptions& options = {});
// All members on one node.
Pattern make_pattern(const std::string& name, int size);

}  // namespace trireme::plan
